# attack: run without a limit of the processor time
# t3: Denied
# t2: Denied
# control: harm
import resource


def attack():
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY:
        raise Denied("limited")


attempt(attack)
