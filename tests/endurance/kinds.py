"""The kinds of scripts in the soak test, each with its permitted replies."""

from __future__ import annotations

from dataclasses import dataclass

from harness import FORTY_TWO, Tier

TIMED_OUT = r"timed out after"
ENDED = r"Execution completed successfully\.$"
FAILED = r"Execution failed with return code \d+$"
BY_SIGNAL = r"Execution failed with return code -\d+"
BY_MEMORY = r"The memory limit of the sandbox ended it|MemoryError"
BY_OUTPUT = r"OUTPUT TRUNCATED DUE TO 1MB SIZE CAP"

# If the kernel does not limit the processes of a script, the bomb limits itself. The limit does not apply to root, so
# the bomb changes its user first. Like every bomb, it forks again if one of its processes is killed.
BOUND = """
import os, resource
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(24705)
    os.setuid(24705)
resource.setrlimit(resource.RLIMIT_NPROC, (200, 200))
"""


@dataclass(frozen=True)
class Kind:
    """A kind of script, and its permitted replies. A timeout is always permitted."""

    name: str
    code: str
    answers: tuple[str, ...]
    forks: bool = False

    def code_at(self, tier: Tier) -> str:
        return BOUND + self.code if self.forks and tier.sandbox == "off" else self.code


BOMBS = [
    Kind(
        "fork bomb",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        (BY_MEMORY,),
        forks=True,
    ),
    Kind(
        "fork bomb, sessions",
        "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass",
        (BY_MEMORY,),
        forks=True,
    ),
    Kind(
        "fork bomb, parents end",
        "import os\nwhile True:\n    try:\n        if os.fork() and os.fork(): os._exit(0)\n    except OSError: pass",
        (BY_MEMORY, ENDED),
        forks=True,
    ),
]

HOSTILE = [
    Kind(
        "daemons",
        """
import os, time
for _ in range(40):
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork(): os._exit(0)
            time.sleep(600)
    except OSError: pass
print('left')
""",
        (ENDED, BY_MEMORY),
        forks=True,
    ),
    Kind(
        "threads",
        """
import threading, time
try:
    for _ in range(300): threading.Thread(target=time.sleep, args=(600,)).start()
except RuntimeError: pass
time.sleep(600)
""",
        (BY_MEMORY,),
    ),
    Kind(
        "memory",
        "held = [b'x' * (1 << 24) + bytes([n]) for n in range(60)]\nimport time; time.sleep(600)",
        (BY_MEMORY,),
    ),
    Kind("flood", "import os\nwhile True: os.write(1, b'x' * 10000)", (BY_OUTPUT,)),
    Kind(
        "flood of lines on both",
        "import os\nwhile True: os.write(1, b'\\n' * 99); os.write(2, b'y\\n' * 99)",
        (BY_OUTPUT,),
    ),
    Kind("stopped", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", ()),
    Kind(
        "stopped children",
        """
import os, signal, time
for _ in range(20):
    try:
        if os.fork() == 0:
            os.setsid()
            os.kill(os.getpid(), signal.SIGSTOP)
    except OSError: pass
time.sleep(600)
""",
        (),
        forks=True,
    ),
    Kind(
        "ignores signals",
        """
import signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(600)
""",
        (),
    ),
    Kind(
        "deep folders",
        "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w').write('x')",
        (ENDED, FAILED),
    ),
    Kind(
        "many folders and files",
        "import os\nfor n in range(10000):\n    os.mkdir(f'd{n}')\n    open(f'd{n}/f', 'w').write('x')",
        (ENDED, FAILED),
    ),
    Kind(
        "page tables",
        """
import mmap, time
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
held = []
try:
    # Reads a page in each 2 MiB: a page table each, but no resident memory.
    for _ in range(10):
        part = mmap.mmap(-1, 1 << 30, flags, mmap.PROT_READ)
        held.append(part)
        for at in range(0, 1 << 30, 1 << 21): part[at]
except OSError: pass
time.sleep(600)
""",
        (BY_MEMORY,),
    ),
    Kind(
        "epoll watches",
        """
import os, select, time
watched = []
try:
    while len(watched) < 120: watched.append(os.eventfd(0))
    for _ in range(120):
        poll = select.epoll()
        watched.append(poll)
        for one in watched[:120]: poll.register(one, select.EPOLLIN)
except OSError: pass
time.sleep(600)
""",
        (BY_MEMORY,),
    ),
    Kind(
        "socket pairs",
        """
import socket, time
held = []
try:
    for _ in range(120):
        for end in socket.socketpair():
            held.append(end)
            end.setblocking(False)
            try:
                while True: end.send(b'x')
            except BlockingIOError: pass
except OSError: pass
time.sleep(600)
""",
        (BY_MEMORY,),
    ),
    Kind("endless loop", "while True: pass", ()),
    Kind("crash", "import ctypes\nctypes.string_at(0)", (BY_SIGNAL,)),
    Kind("silence", "import time\ntime.sleep(600)", ()),
    Kind("silence, closed", "import os, time\nos.closerange(0, 256)\ntime.sleep(600)", (ENDED, FAILED)),
]

HONEST = [
    Kind("product", "print(6*7)", (f"^{FORTY_TWO}$",)),
    Kind("sleep", "import time\ntime.sleep(0.2)\nprint('slept')", (r"^STDOUT:\nslept\n\nExecution completed",)),
    Kind("refused by itself", "raise SystemExit(3)", (r"return code 3$",)),
]
SYMPY = Kind("sympy", "import sympy\nprint(sympy.factor('x**2-1'))", (r"^STDOUT:\n\(x - 1\)\*\(x \+ 1\)\n",))
