# rule: process/multiprocessing
# effect: writes
from concurrent.futures import ProcessPoolExecutor as Runner
def work(x, f=open): f("canary", "w").close()
if __name__ == "__main__":
    with Runner(1) as pool: pool.submit(work, 1).result()
