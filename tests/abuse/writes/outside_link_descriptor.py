# attack: give a scratch file a name outside through its descriptor only
# t3: ENOENT
# t2: EACCES | EXDEV | ENOENT
# control: harm as root


def attack():
    file = os.open("mine", os.O_RDWR | os.O_CREAT, 0o600)
    syscall("linkat", file, b"", AT_FDCWD, b"@OUTSIDE@/@OUT_TAG@e", 0x1000)
    os.unlink("@OUTSIDE@/@OUT_TAG@e")


attempt(attack)
