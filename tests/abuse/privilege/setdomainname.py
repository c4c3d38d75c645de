# attack: change the domain name of the machine (with an invalid length)
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    # a length below zero is refused only after the rights check
    syscall("setdomainname", b"x", -1)


attempt(lambda: reached(attack, errno.EINVAL))
