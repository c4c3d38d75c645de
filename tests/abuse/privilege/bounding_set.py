# attack: have a capability left in the bounding set
# t3: Denied | EPERM
# t2: harm, gap: capability bounding set
# t2 as root: Denied | EPERM
# control: harm


def attack():
    if not any(syscall("prctl", 23, number, 0, 0, 0) for number in range(36)):
        raise Denied("empty")


attempt(attack)
