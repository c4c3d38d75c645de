# attack: replace a file outside by renaming a scratch file over it
# t3: ENOENT
# t2: EACCES | EXDEV
# control: harm


def attack():
    os.umask(0o022)
    with open("new", "wb") as file:
        file.write(b"untouched")
    os.rename("new", "@OUTSIDE@/victim.txt")


attempt(attack)
