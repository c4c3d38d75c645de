# attack: bind the root folder into the scratch folder
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    os.mkdir("all")
    syscall("mount", b"/", b"all", None, 0x1000, None)
    syscall("umount2", b"all", 2)


attempt(attack)
