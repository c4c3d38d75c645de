# attack: create a file outside the scratch folder
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    path = "@OUTSIDE@/@OUT_TAG@"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)


attempt(attack)
