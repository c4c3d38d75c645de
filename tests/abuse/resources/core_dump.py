# attack: write a core dump
# t3: Denied
# t2: EPERM
# control: harm
import resource


def attack():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    child = os.fork()
    if child == 0:
        os.abort()
    if not os.WCOREDUMP(os.waitpid(child, 0)[1]):
        raise Denied("no dump")


attempt(attack)
