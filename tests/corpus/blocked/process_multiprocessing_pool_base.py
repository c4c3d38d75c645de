# rule: process/multiprocessing
# effect: prints
from multiprocessing.pool import ThreadPool
def f(x): print("PWNED", flush=True)
ThreadPool.__mro__[1](1).map(f, [1])
