# attack: give a file outside another name
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    os.rename("@OUTSIDE@/victim.txt", "@OUTSIDE@/@OUT_TAG@r")
    os.rename("@OUTSIDE@/@OUT_TAG@r", "@OUTSIDE@/victim.txt")


attempt(attack)
