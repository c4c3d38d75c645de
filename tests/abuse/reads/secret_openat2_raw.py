# attack: open the secret with the raw openat2 call
# t3: ENOENT | ENOSYS | EPERM
# t2: EACCES | ENOSYS | EPERM
# control: harm
import struct


def attack():
    how = struct.pack("QQQ", 0, 0, 0)
    file = syscall("openat2", AT_FDCWD, b"@SECRET@", how, len(how))
    leaked(os.read(file, 100))


attempt(attack)
