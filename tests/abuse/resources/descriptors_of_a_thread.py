# attack: have descriptors of its own in one thread, which nobody counts
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    CLOSE_RANGE, CLOSE_RANGE_UNSHARE = 436, 2
    syscall(CLOSE_RANGE, 200, 255, CLOSE_RANGE_UNSHARE)


attempt(attack)
