# attack: append to a file outside
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    with open("@OUTSIDE@/victim.txt", "ab") as file:
        size = file.tell()
        file.write(b"more")
        file.flush()
        file.truncate(size)


attempt(attack)
