"""The scripts that attack the limits in docs/LIMITS.md.

A script prints a line `holds WORKER UNIT NUMBER` whenever the amount of a resource grows. The last line of each
worker and unit counts. For each refused request, it prints a line `refused ERROR`. MiB are the kernel memory of the
resource, estimated for Linux 6. Each script ends by itself after a time in the template, so that a missing limit
costs seconds instead of minutes.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field

PRELUDE = """\
import ctypes, errno, fcntl, mmap, os, resource, select, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
HUGE, SMALL, FILL = 14, 15, 23
ends = time.monotonic() + $seconds

def say(*words):
    os.write(1, (" ".join(str(word) for word in words) + "\\n").encode())

def refused(error):
    say("refused", errno.errorcode.get(getattr(error, "errno", None), type(error).__name__))

def is_time():
    return time.monotonic() < ends

def address(mapping):
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))

def crowd(count, work):
    # Forks workers, waits until each has taken all that it can, and lets them keep that for a moment.
    done, doing = os.pipe()
    children = []
    for number in range(count):
        try:
            child = os.fork()
        except OSError as error:
            refused(error)
            break
        if child == 0:
            os.close(done)
            try:
                kept = work(number)
            except (OSError, MemoryError) as error:
                refused(error)
            os.close(doing)
            time.sleep(600)
        children.append(child)
    if children:
        os.close(doing)
        os.read(done, 1)
    else:
        kept = work(0)
    time.sleep($hold)
    os._exit(0)
"""


@dataclass(frozen=True)
class Attack:
    """A script, its sizes, and the expected results."""

    name: str
    #: The name of the attacked limit.
    limit: str
    code: str
    sizes: dict[str, int] = field(default_factory=dict)
    smoke: dict[str, int] = field(default_factory=dict)
    #: The maximum that the script may hold, by unit. Each value is a key of `limits.bounds`, or a number.
    most: dict[str, str] = field(default_factory=dict)
    #: The minimum that the script must get, by unit, if the limit is also a promise to scripts.
    least: dict[str, int] = field(default_factory=dict)
    #: How much the machine's resident memory may grow, as a multiple of the memory limit.
    anonymous: float | None = None
    #: The permitted ends of the run, as names in `limits.ENDS`. If empty, any end is permitted.
    ends: tuple[str, ...] = ()
    #: Whether only tier 3 has this limit.
    is_of_tier_3: bool = False
    #: Whether the attack is useful with the small sizes of a smoke test.
    is_in_smoke: bool = True

    def script(self, *, smoke: bool, memory_mb: int) -> str:
        times = {"seconds": 1.5, "hold": 0.2} if smoke else {"seconds": 15, "hold": 1}
        sizes = {**self.sizes, **(self.smoke if smoke else {})}
        return string.Template(PRELUDE + self.code).substitute(sizes, memory_mb=memory_mb, **times)


MEMORY = [
    Attack(
        "memory of one process",
        "memory",
        """
kept = []
while is_time() and len(kept) < 500:
    kept.append(b"x" * (8 << 20) + bytes([len(kept) % 256]))
    say("holds", 0, "MiB", 8 * len(kept))
""",
        most={"MiB": "1.5 of memory"},
        ends=("memory",),
    ),
    Attack(
        "memory of many processes",
        "memory",
        """
def work(number):
    kept = []
    while is_time() and len(kept) < $each:
        kept.append(b"x" * (2 << 20) + bytes([number]))
        say("holds", number, "MiB", 2 * len(kept))
    return kept
crowd(60, work)
""",
        {"each": 40},
        {"each": 20},
        most={"MiB": "1.5 of memory"},
        ends=("memory",),
    ),
    Attack(
        "page tables",
        "memory",
        """
def work(number):
    # One page in each GiB, which is only read: two pages of page tables, no resident memory.
    for n in range(65000):
        if not is_time(): break
        page = libc.mmap(0x100000000000 + (n << 30), 4096, mmap.PROT_READ, PRIVATE | 0x100000, -1, 0)
        if page in (None, 2**64 - 1):
            raise OSError(ctypes.get_errno(), "")
        ctypes.c_char.from_address(page).value
        if n % 1000 == 999: say("holds", number, "MiB", n * 8 >> 10)
crowd($processes, work)
""",
        {"processes": 60},
        {"processes": 4},
        most={"MiB": "1.5 of memory"},
    ),
    Attack(
        "pages pinned by sendfile",
        "memory",
        """
def work(number):
    # Two bytes across a page border pin both pages, even after the file has been truncated.
    file = os.open(f"pinned-{number}", os.O_CREAT | os.O_RDWR)
    block, kept, used, pages = b"z" * (4096 * 256), [], 256, 0
    for _ in range($pairs):
        pair = socket.socketpair()
        kept.append(pair)
        for end in pair:
            end.setblocking(False)
            while is_time():
                if used >= 256:
                    os.ftruncate(file, 0)
                    os.pwrite(file, block, 0)
                    used = 0
                try:
                    os.sendfile(end.fileno(), file, used * 4096 + 4095, 2)
                except BlockingIOError:
                    break
                used += 2
                pages += 2
        say("holds", number, "MiB", pages >> 8)
    return kept
crowd($processes, work)
""",
        {"processes": 60, "pairs": 125},
        {"processes": 4, "pairs": 125},
        most={"MiB": "1.5 of memory"},
    ),
    Attack(
        "forked mappings",
        "memory",
        """
count = $mappings
area = mmap.mmap(-1, count * 4096, PRIVATE)
start = address(area)
libc.madvise(start, count * 4096, SMALL)
area[0] = 1
made = 0
for n in range(1, count, 2):
    if libc.mprotect(start + n * 4096, 4096, mmap.PROT_READ) != 0:
        say("refused", errno.errorcode[ctypes.get_errno()])
        break
    made += 2
say("holds", -1, "mappings", made)
crowd(60, lambda number: say("holds", number, "MiB", round(made * 480 / 2**20, 1)))
""",
        {"mappings": 64000},
        {"mappings": 8000},
        most={"MiB": "1.5 of memory"},
    ),
    Attack(
        "record locks",
        "memory",
        """
def work(number):
    files = [os.open(f"locked-{number}-{n}", os.O_CREAT | os.O_RDWR) for n in range(8)]
    count = 0
    # If the lock call succeeds without taking a lock, another process does not see the lock.
    fcntl.lockf(files[0], fcntl.LOCK_EX, 1)
    if os.fork() == 0:
        seen = fcntl.fcntl(files[0], fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0))
        os._exit(struct.unpack("hhqqi", seen)[0] != fcntl.F_UNLCK)
    if os.waitstatus_to_exitcode(os.wait()[1]) == 0:
        say("refused", "LOCKS-NOT-TAKEN")
        return files
    while is_time():
        for file in files:
            for n in range(200):
                fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 2 * (count // 8 + n), 1, 0))
        count += 200 * len(files)
        say("holds", number, "MiB", round(count * 200 / 2**20, 1))
crowd($processes, work)
""",
        {"processes": 60},
        {"processes": 8},
        most={"MiB": "1.5 of memory"},
    ),
    Attack(
        "epoll watches",
        "memory",
        """
def work(number):
    polls = [select.epoll() for _ in range(125)]
    watched, count = [], 0
    try:
        while True: watched.append(os.eventfd(0))
    except OSError: pass
    for poll in polls:
        for one in watched:
            poll.register(one, select.EPOLLIN)
            count += 1
        say("holds", number, "MiB", round(count * 300 / 2**20, 1))
        if not is_time(): break
    return polls
crowd($processes, work)
""",
        {"processes": 60},
        {"processes": 12},
        most={"MiB": "1.5 of memory"},
    ),
    Attack(
        "socket pairs with bytes",
        "memory",
        """
def work(number):
    kept, count = [], 0
    try:
        while is_time():
            for end in socket.socketpair():
                kept.append(end)
                end.setblocking(False)
                try:
                    while True:
                        end.send(b"x")
                        count += 1
                except BlockingIOError: pass
            say("holds", number, "MiB", count * 768 >> 20)
    except OSError as error: refused(error)
    return kept
crowd($processes, work)
""",
        {"processes": 60},
        {"processes": 12},
        most={"MiB": "1.5 of memory"},
    ),
    Attack(
        "socket pairs with blocks",
        "memory",
        """
def work(number):
    kept, count, block = [], 0, b"x" * 32768
    try:
        while is_time():
            for end in socket.socketpair():
                kept.append(end)
                end.setblocking(False)
                try:
                    while True: count += end.send(block)
                except BlockingIOError: pass
            say("holds", number, "MiB", count >> 20)
    except OSError as error: refused(error)
    return kept
crowd($processes, work)
""",
        {"processes": 60},
        {"processes": 12},
        most={"MiB": "1.5 of memory"},
    ),
    Attack(
        "pipes",
        "memory",
        """
def work(number):
    kept, count, block = [], 0, b"x" * 65536
    try:
        while is_time():
            ends_of_pipe = os.pipe()
            kept.append(ends_of_pipe)
            os.set_blocking(ends_of_pipe[1], False)
            try:
                while True: count += os.write(ends_of_pipe[1], block)
            except BlockingIOError: pass
    except OSError as error: refused(error)
    say("holds", number, "MiB", count >> 20)
    return kept
crowd($processes, work)
""",
        {"processes": 60},
        {"processes": 60},
        most={"MiB": "1.5 of memory"},
    ),
]

_SLOW_WATCH = """
# Many processes share a base in small pages, so that the watch takes long to add up their memory. Then some take more.
base = mmap.mmap(-1, $base << 20, PRIVATE)
libc.madvise(address(base), $base << 20, SMALL)
libc.madvise(address(base), $base << 20, FILL)
children = 0
for _ in range($sleepers):
    try:
        if os.fork() == 0:
            time.sleep(600)
        children += 1
    except OSError as error:
        refused(error)
        break
say("holds", 0, "sleepers", children)
time.sleep(0.3)
def work(number):
    more = mmap.mmap(-1, $more << 20, PRIVATE)
    start = address(more)
    libc.madvise(start, $more << 20, HUGE)
    for at in range(0, $more, 16):
        libc.madvise(start + (at << 20), 16 << 20, FILL)
        say("holds", number, "MiB", at + 16)
    return more
crowd($bursts, work)
"""

WATCH = [
    Attack(
        f"slow watch of {base} and {bursts} bursts",
        "memory, by a tenth",
        _SLOW_WATCH,
        {"sleepers": 55, "base": base, "more": 1500, "bursts": bursts},
        {"base": base // 4, "more": 250},
        anonymous=1.1,
        ends=("memory",),
        is_in_smoke=bursts == 2 and base == 800,
    )
    for base, bursts in [(800, 2), (900, 1), (900, 2)]
] + [
    Attack(
        f"{hoppers} hopping processes of {each}",
        "memory",
        """
libc.fork.argtypes, libc._exit.argtypes = [], [ctypes.c_int]
def hop(number):
    area = mmap.mmap(-1, $each << 20, PRIVATE)
    start = address(area)
    libc.madvise(start, $each << 20, HUGE)
    for at in range(0, $each, 2):
        libc.madvise(start + (at << 20), 2 << 20, FILL)
        if libc.fork() > 0: libc._exit(0)
    say("holds", number, "MiB", $each)
    while is_time():
        if libc.fork() > 0: libc._exit(0)
for number in range($hoppers):
    try:
        if os.fork() == 0:
            hop(number)
            os._exit(0)
    except OSError as error:
        refused(error)
        break
while is_time(): time.sleep(0.1)
os._exit(0)
""",
        {"hoppers": hoppers, "each": each},
        {"each": each // 4},
        anonymous=1.5,
        is_in_smoke=each == 400,
    )
    for hoppers, each in [(4, 400), (4, 600)]
]

COUNTS = [
    Attack(
        "address space",
        "address space",
        """
kept, total = [], 0
for size in (64, 1):
    try:
        while total < 1 << 17:
            kept.append(mmap.mmap(-1, size << 20, PRIVATE, mmap.PROT_READ))
            total += size
    except OSError as error: refused(error)
say("holds", 0, "MiB mapped", total)
""",
        most={"MiB mapped": "address space"},
        least={"MiB mapped": 1024},
    ),
    Attack(
        "processes",
        "processes and threads",
        """
started = 1
try:
    while started < 400:
        if os.fork() == 0: time.sleep(600)
        started += 1
except OSError as error: refused(error)
say("holds", 0, "processes", started)
os._exit(0)
""",
        most={"processes": "64"},
    ),
    Attack(
        "threads",
        "processes and threads",
        """
started = 1
threading.stack_size(65536)
try:
    while started < 400:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        started += 1
except RuntimeError as error: refused(error)
say("holds", 0, "threads", started)
os._exit(0)
""",
        most={"threads": "64"},
        least={"threads": 8},
    ),
    Attack(
        "open files",
        "open files",
        """
count = 3
try:
    while count < 5000:
        os.dup(1)
        count += 1
except OSError as error: refused(error)
say("holds", 0, "files", count)
""",
        most={"files": "256"},
        least={"files": 100},
    ),
    Attack(
        "size of a file",
        "size of a file",
        """
file, size, block = os.open("large", os.O_CREAT | os.O_WRONLY), 0, b"x" * (1 << 20)
try:
    while size < 300 << 20: size += os.write(file, block)
except OSError as error: refused(error)
say("holds", 0, "MiB written", size / 2**20)
""",
        most={"MiB written": "64"},
        least={"MiB written": 32},
    ),
    Attack(
        "bytes in the scratch folder",
        "scratch folder",
        """
size, block = 0, b"x" * (1 << 18)
try:
    for n in range(16):
        file = os.open(f"part-{n}", os.O_CREAT | os.O_WRONLY)
        for _ in range(128): size += os.write(file, block)
except OSError as error: refused(error)
say("holds", 0, "MiB in files", size / 2**20)
""",
        most={"MiB in files": "scratch folder"},
        least={"MiB in files": 64},
        is_of_tier_3=True,
    ),
    Attack(
        "files in the scratch folder",
        "scratch folder",
        """
made = 0
try:
    while made < 6000:
        if made % 2: os.mkdir(f"folder-{made}")
        else: os.close(os.open(f"file-{made}", os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError as error: refused(error)
say("holds", 0, "names", made)
""",
        most={"names": "scratch names"},
        least={"names": 1000},
        is_of_tier_3=True,
    ),
    Attack(
        "bytes of shared memory",
        "shared memory",
        """
size, block = 0, b"x" * (1 << 18)
try:
    for n in range(8):
        file = os.open(f"/dev/shm/part-{n}", os.O_CREAT | os.O_WRONLY)
        for _ in range(128): size += os.write(file, block)
except OSError as error: refused(error)
say("holds", 0, "MiB shared", size / 2**20)
""",
        most={"MiB shared": "shared memory"},
    ),
    Attack(
        "names of shared memory",
        "shared memory",
        """
made = 0
try:
    while made < 1000:
        os.close(os.open(f"/dev/shm/name-{made}", os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError as error: refused(error)
say("holds", 0, "shared names", made)
""",
        most={"shared names": "shared names"},
    ),
    Attack(
        "limits that cannot be raised",
        "core dumps, locked memory, queues, priority",
        """
for name in ("CORE", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO", "NOFILE", "FSIZE", "CPU"):
    number = getattr(resource, "RLIMIT_" + name)
    soft, hard = resource.getrlimit(number)
    say("holds", 0, "RLIMIT_" + name, hard if hard >= 0 else 1 << 62)
    try:
        resource.setrlimit(number, (hard + 1, hard + 1))
        say("holds", 0, "raised", 1)
    except (ValueError, OSError): pass
    if soft != hard: say("holds", 0, "raised", 1)
""",
        most={
            "RLIMIT_CORE": "0",
            "RLIMIT_MEMLOCK": "65536",
            "RLIMIT_MSGQUEUE": "0",
            "RLIMIT_NICE": "0",
            "RLIMIT_RTPRIO": "0",
            "RLIMIT_NOFILE": "256",
            "RLIMIT_FSIZE": "67108864",
            "RLIMIT_CPU": "processor",
            "raised": "0",
        },
        ends=("completed",),
    ),
    Attack(
        "output",
        "output",
        "while True: os.write(1, b'y' * 65536)",
        ends=("output",),
    ),
    Attack(
        "time",
        "time",
        "while True: pass",
        ends=("timed out",),
    ),
    Attack(
        "processor time",
        "CPU time",
        """
import hashlib
block = bytes(32 << 20)
def burn():
    while True: hashlib.sha256(block)
for _ in range(4): threading.Thread(target=burn, daemon=True).start()
while True:
    time.sleep(0.25)
    say("holds", 0, "CPU", round(time.process_time(), 1))
""",
        most={"CPU": "processor"},
        ends=("timed out", "killed"),
        is_in_smoke=False,
    ),
]

ATTACKS = [*COUNTS, *MEMORY, *WATCH]
