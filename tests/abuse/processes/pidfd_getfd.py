# attack: copy an open file out of another process
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    handle = os.pidfd_open(int("@VICTIM_PID@"))
    os.close(syscall("pidfd_getfd", handle, 0, 0))


attempt(attack)
