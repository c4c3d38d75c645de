# attack: lock a library by a lock that belongs to an open file
# t3: EPERM
# t2: EPERM
# control: harm
import fcntl
import struct


def attack():
    file = os.open(os.__file__, os.O_RDONLY)
    lock = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)


attempt(attack)
