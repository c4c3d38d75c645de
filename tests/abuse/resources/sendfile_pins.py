# attack: make a socket pin the pages of a file that was truncated
# t3: ENOTSOCK
# t2: ENOTSOCK
# control: harm
import socket


def attack():
    file = os.open("pages", os.O_CREAT | os.O_RDWR)
    os.write(file, b"x" * 8192)
    ours, theirs = socket.socketpair()
    os.sendfile(ours.fileno(), file, 4095, 2)
    os.ftruncate(file, 0)


attempt(attack)
