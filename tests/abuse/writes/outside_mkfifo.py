# attack: make a pipe file outside
# t3: EPERM | ENOENT
# t2: EPERM | EACCES
# control: harm


def attack():
    os.mkfifo("@OUTSIDE@/@OUT_TAG@p")
    os.unlink("@OUTSIDE@/@OUT_TAG@p")


attempt(attack)
