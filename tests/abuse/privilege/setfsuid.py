# attack: access files as another user with setfsuid
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    syscall("setfsuid", 12345)
    if syscall("setfsuid", 12345) != 12345:
        raise Denied("not changed")


attempt(lambda: in_child(attack))
