# attack: make a folder outside
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    os.mkdir("@OUTSIDE@/@OUT_TAG@m")
    os.rmdir("@OUTSIDE@/@OUT_TAG@m")


attempt(attack)
