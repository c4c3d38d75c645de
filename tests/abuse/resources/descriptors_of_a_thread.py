# attack: open descriptors in a thread with a separate descriptor table, which is not counted
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    CLOSE_RANGE, CLOSE_RANGE_UNSHARE = 436, 2
    syscall(CLOSE_RANGE, 200, 255, CLOSE_RANGE_UNSHARE)


attempt(attack)
