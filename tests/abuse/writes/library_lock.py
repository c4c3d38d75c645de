# attack: lock a library, which holds others up and is seen by other runs
# t3: ENOSYS
# t2: ENOSYS
# control: harm
import fcntl


def attack():
    file = os.open(os.__file__, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


attempt(attack)
