# attack: write a script with an interpreter line and execute it
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    file = os.open("script", os.O_WRONLY | os.O_CREAT, 0o700)
    os.write(file, b"#!/bin/sh\nexit 0\n")
    os.close(file)
    in_child(lambda: os.execv("./script", ["script"]))


attempt(attack)
