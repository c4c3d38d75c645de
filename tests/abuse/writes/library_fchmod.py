# attack: change the mode of a library file through a read-only descriptor
# t3: EROFS | EPERM
# t2: EPERM
# control: harm as root


def attack():
    file = os.open(os.__file__, os.O_RDONLY)
    os.fchmod(file, os.fstat(file).st_mode & 0o7777)


attempt(attack)
