# attack: create a file relative to an O_PATH handle of a folder outside
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    folder = os.open("@OUTSIDE@", os.O_PATH | os.O_DIRECTORY)
    os.close(os.open("@OUT_TAG@d", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder))
    os.unlink("@OUT_TAG@d", dir_fd=folder)


attempt(attack)
