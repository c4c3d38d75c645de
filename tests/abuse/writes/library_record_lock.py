# attack: lock a record of a library so that another process sees it
# t3: Denied
# t2: EPERM
# control: harm
import fcntl
import struct


def attack():
    file = os.open(os.__file__, os.O_RDONLY)
    fcntl.lockf(file, fcntl.LOCK_SH, 1)

    def look():
        wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        found = fcntl.fcntl(file, fcntl.F_GETLK, wanted)
        if struct.unpack("hhqqi", found)[0] == fcntl.F_UNLCK:
            os._exit(255)

    in_child(look)


attempt(attack)
