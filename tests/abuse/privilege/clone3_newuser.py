# attack: fork a child into a new user namespace with clone3, whose flags a filter cannot see
# t3: ENOSYS
# t2: ENOSYS
# control: harm
import struct


def attack():
    args = struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    child = syscall("clone3", args, len(args))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


attempt(attack)
