# attack: start a session, to which many kernels give a separate share of the processors
# t3: Denied
# t2: EPERM
# control: harm


def attack():
    child = os.fork()
    if child == 0:
        os.setsid()
        os._exit(os.getsid(0) == os.getpid())
    if os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 0:
        raise Denied("it has that of its parent")


attempt(attack)
