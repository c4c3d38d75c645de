# attack: leave a file in /dev/shm of the machine
# t3: Denied
# t2: EACCES
# control: harm


def attack():
    path = "/dev/shm/@OUT_TAG@"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.unlink(path)
    space = os.statvfs("/dev/shm")
    if space.f_blocks * space.f_frsize == 64 << 20 and os.getppid() == 0:
        raise Denied("a private one")


attempt(attack)
