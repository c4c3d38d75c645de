# attack: change this process's out-of-memory score (written back unchanged)
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    with open("/proc/self/oom_score_adj", "r+") as file:
        value = file.read()
        file.seek(0)
        file.write(value)


attempt(attack)
