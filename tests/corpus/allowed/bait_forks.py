# rule: none
# checks that dining philosophers with ordered forks do not deadlock
import threading

class Fork:
    def __init__(self, index):
        self.index, self.lock = index, threading.Lock()

def fork(i):
    return Fork(i)

forks = [fork(i) for i in range(5)]
meals = [0] * 5

def dine(seat, rounds=50):
    left, right = forks[seat], forks[(seat + 1) % 5]
    first, second = sorted((left, right), key=lambda f: f.index)
    for _ in range(rounds):
        with first.lock, second.lock:
            meals[seat] += 1

threads = [threading.Thread(target=dine, args=(i,)) for i in range(5)]
for th in threads:
    th.start()
for th in threads:
    th.join(timeout=10)
assert not any(th.is_alive() for th in threads)
print("meals:", meals)
assert meals == [50] * 5

class Repo:
    def __init__(self, name, commits=()):
        self.name, self.commits = name, list(commits)

    def fork(self, owner):
        return Repo(f"{owner}/{self.name.split('/')[1]}", self.commits)

mine = Repo("up/lib", ["c1"]).fork("me")
mine.commits.append("c2")
assert mine.name == "me/lib" and mine.commits == ["c1", "c2"]
