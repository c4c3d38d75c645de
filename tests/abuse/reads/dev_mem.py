# attack: open the physical memory, or another kernel device if that does not exist
# t3: ENOENT
# t2: EACCES
# control: harm as root


def attack():
    names = ("/dev/mem", "/dev/kvm", "/dev/fuse", "/dev/loop-control")
    present = [name for name in names if os.path.exists(name)]
    os.open((present or names)[0], os.O_RDONLY)


attempt(attack)
