# attack: pass a descriptor over a socket pair with a control message
# t3: EPERM
# t2: EPERM
# control: harm
import array
import socket


def attack():
    left, right = socket.socketpair()
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))
    left.sendmsg([b"x"], [rights])


attempt(attack)
