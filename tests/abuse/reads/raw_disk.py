# attack: make a device file for the disk of the machine and read it raw
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    os.mknod("disk", 0o60600, os.makedev(7, 0))
    reached(lambda: os.open("disk", os.O_RDONLY), errno.ENXIO, errno.EACCES)


attempt(attack)
