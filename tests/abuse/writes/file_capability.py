# attack: give a scratch file capabilities that hold when it is executed
# t3: EPERM
# t2: EPERM
# control: harm as root
import struct


def attack():
    open("program", "wb").close()
    os.setxattr("program", "security.capability", struct.pack("<IIIII", 0x2000001, 0xFF, 0, 0, 0))


attempt(attack)
