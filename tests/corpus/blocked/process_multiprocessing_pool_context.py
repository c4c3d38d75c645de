# rule: process/multiprocessing
# effect: prints
from multiprocessing.pool import ThreadPool
def f(): print("PWNED", flush=True)
process = ThreadPool(1)._ctx.Process(target=f)
process.start()
process.join()
