# attack: link a scratch file into a folder outside
# t3: ENOENT
# t2: EACCES | EXDEV
# control: harm


def attack():
    open("mine", "wb").close()
    os.link("mine", "@OUTSIDE@/@OUT_TAG@l")
    os.unlink("@OUTSIDE@/@OUT_TAG@l")


attempt(attack)
