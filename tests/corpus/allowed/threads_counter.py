# rule: none
# checks that a lock protects a shared counter
import threading
from queue import Queue, Empty

class Counter:
    def __init__(self):
        self.value = 0
        self._lock = threading.Lock()

    def increment(self, times):
        for _ in range(times):
            with self._lock:
                self.value += 1

counter = Counter()
threads = [threading.Thread(target=counter.increment, args=(5000,), name=f"w{i}") for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("value:", counter.value)
assert counter.value == 20000

work, done = Queue(), []
for i in range(30):
    work.put(i)

def drain():
    while True:
        try:
            n = work.get_nowait()
        except Empty:
            return
        done.append(n * 2)
        work.task_done()

ts = [threading.Thread(target=drain, daemon=True) for _ in range(3)]
[t.start() for t in ts]
work.join()
[t.join() for t in ts]
assert sorted(done) == list(range(0, 60, 2))
ready = threading.Event()
threading.Timer(0.01, ready.set).start()
assert ready.wait(2)
