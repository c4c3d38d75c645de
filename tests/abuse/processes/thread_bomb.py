# attack: start 300 threads
# t3: RuntimeError
# t2: memory limit | RuntimeError
# control: harm
import threading
import time


def attack():
    stop = threading.Event()
    threads = []
    threading.stack_size(128 << 10)
    try:
        for _ in range(300):
            thread = threading.Thread(target=stop.wait, args=(10,), daemon=True)
            thread.start()
            threads.append(thread)
        # The memory watch takes a sample every 25 ms.
        time.sleep(2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


attempt(attack)
