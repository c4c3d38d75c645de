# attack: lock a library, which holds others up and is seen by other runs
# t3: ENOSYS
# t2: ENOSYS
# control: harm
import fcntl


def attack():
    file = os.open(os.__file__, os.O_RDONLY)
    # This call waits, because the same attack may run in another test at this moment.
    fcntl.flock(file, fcntl.LOCK_EX)


attempt(attack)
