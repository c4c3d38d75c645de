# attack: start a program with posix_spawn
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 0"], {})
    if os.waitpid(child, 0)[1]:
        raise Denied()


attempt(attack)
