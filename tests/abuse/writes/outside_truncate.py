# attack: cut a file outside with the truncate call, which opens nothing
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    os.truncate("@OUTSIDE@/victim.txt", os.stat("@OUTSIDE@/victim.txt").st_size)


attempt(attack)
