# attack: offer a socket file in the scratch folder to processes outside
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind("door")
        sock.listen(1)


attempt(attack)
