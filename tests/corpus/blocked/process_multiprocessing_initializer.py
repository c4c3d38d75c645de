# rule: process/multiprocessing
# effect: writes
from concurrent.futures import process as p
if __name__ == "__main__":
    with p.ProcessPoolExecutor(1, initializer=open, initargs=("canary", "w")) as ex:
        ex.submit(abs, 1).result()
