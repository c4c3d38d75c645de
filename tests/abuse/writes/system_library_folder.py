# attack: plant a file in the folder of the system libraries
# t3: EROFS | EACCES
# t2: EACCES
# control: harm as root


def attack():
    path = "/usr/local/lib/@OUT_TAG@"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.unlink(path)


attempt(attack)
