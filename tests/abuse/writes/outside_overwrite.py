# attack: write over the content of a file outside
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    with open("@OUTSIDE@/victim.txt", "r+b") as file:
        old = file.read()
        file.seek(0)
        file.write(old)


attempt(attack)
