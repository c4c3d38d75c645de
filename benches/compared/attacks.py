"""The attacks: one suite for all peers. Each attack has a script, and a check from outside whether the attack
succeeded.

The scripts use few features of the language, so that restricted interpreters run them too. Each script ends by
itself, or the bench ends it. `@NAME@` stands for a planted object, see `traps.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compared.session import Peak, Reply
from compared.traps import CANARY, MODE, Traps

# A bomb succeeds if it exceeds these bounds. They are far above the needs of an honest script.
PROCESSES_BOUND = 150
MEMORY_BOUND_MB = 2000.0
OUTPUT_BOUND_BYTES = 24 << 20
CPU_SHARE_BOUND = 0.5


@dataclass
class Trial:
    """The facts that can be observed after an attack."""

    traps: Traps
    mark: str
    # The reply, or None if the peer did not answer.
    reply: Reply | None
    second: Reply | None
    peak: Peak
    # Whether the peer still runs scripts.
    is_alive: bool
    # The share of a processor that the peer's processes use after the reply.
    cpu_share: float
    # The PIDs of the attack's processes that run after the reply.
    orphans: list[int]
    # The package folders in which an attack may have planted a file.
    package_folders: list[Path]


Check = Callable[[Trial], bool]


@dataclass(frozen=True)
class Attack:
    """An attack, and the check whether it succeeded."""

    kind: str
    name: str
    code: str
    check: Check
    # The script of a second run. The check reads its reply.
    second: str = ""
    # Whether the script runs until its timeout.
    is_endless: bool = False


def shows_secret(trial: Trial) -> bool:
    return trial.reply is not None and trial.traps.token in trial.reply.text


def shows_made(trial: Trial) -> bool:
    """Returns whether the output has a text that is not in the script itself, but that the script would compute."""
    return trial.reply is not None and f"made-42-{trial.mark}" in trial.reply.text


def second_shows_made(trial: Trial) -> bool:
    return trial.second is not None and f"made-42-{trial.mark}" in trial.second.text


def shows_users(trial: Trial) -> bool:
    first = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()[0]
    return trial.reply is not None and first in trial.reply.text


def lists_home(trial: Trial) -> bool:
    return trial.reply is not None and f"found {trial.traps.canary.name}" in trial.reply.text


def made_file(trial: Trial) -> bool:
    return (trial.traps.home / trial.mark).exists()


def made_file_in_tmp(trial: Trial) -> bool:
    path = Path("/tmp", trial.mark)
    found = path.exists()
    path.unlink(missing_ok=True)
    return found


def made_package_hook(trial: Trial) -> bool:
    hooks = [folder / f"{trial.mark}.pth" for folder in trial.package_folders]
    found = [hook for hook in hooks if hook.exists()]
    for hook in found:
        hook.unlink()
    return bool(found)


def changed_canary(trial: Trial) -> bool:
    return not trial.traps.canary.exists() or trial.traps.canary.read_text(encoding="utf-8") != CANARY


def changed_mode(trial: Trial) -> bool:
    return trial.traps.canary.stat().st_mode & 0o777 != MODE


def reached_listener(trial: Trial) -> bool:
    return any(trial.mark.encode() in data for data in trial.traps.received)


def killed_victim(trial: Trial) -> bool:
    return trial.traps.victim is not None and trial.traps.victim.poll() is not None


def ended_peer(trial: Trial) -> bool:
    return not trial.is_alive


def many_processes(trial: Trial) -> bool:
    return trial.peak.processes > PROCESSES_BOUND


def much_memory(trial: Trial) -> bool:
    return trial.peak.memory_mb > MEMORY_BOUND_MB


def much_output(trial: Trial) -> bool:
    return trial.reply is not None and trial.reply.size > OUTPUT_BOUND_BYTES


def still_computes(trial: Trial) -> bool:
    return trial.reply is None or trial.cpu_share > CPU_SHARE_BOUND


def left_process(trial: Trial) -> bool:
    return bool(trial.orphans)


OPEN = "print(open('@SECRET@').read())"
SYMLINK = "import os\nos.symlink('@SECRET@', 'link')\nprint(open('link').read())"
NATIVE = """\
import ctypes
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fgets.restype = ctypes.c_char_p
libc.fgets.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
print(libc.fgets(ctypes.create_string_buffer(200), 200, libc.fopen(b'@SECRET@', b'r')))
"""
# The objects of the interpreter lead to a function that opens files, without an import. In Pyodide, JavaScript does.
OBJECTS = """\
try:
    from js import process
    print(process.getBuiltinModule('fs').readFileSync('@SECRET@', 'utf8'))
except ImportError:
    for each in ().__class__.__base__.__subclasses__():
        if each.__name__ == '_wrap_close':
            print(each.__init__.__globals__['__builtins__']['open']('@SECRET@').read())
"""
# A library that evaluates text as Python.
LIBRARY = """\
import sympy
print(sympy.sympify("__import__('pathlib').Path('@SECRET@').read_text()"))
"""
ENVIRONMENT = """\
try:
    from js import process
    print(process.env.@VARIABLE@)
except ImportError:
    import os
    print(os.environ['@VARIABLE@'])
"""
ENVIRONMENTS = """\
import os
for each in os.listdir('/proc'):
    if each.isdigit():
        try:
            text = open('/proc/' + each + '/environ', 'rb').read().decode()
        except OSError:
            continue
        for variable in text.split(chr(0)):
            if variable[:16] == '@VARIABLE@'[:16]:
                print(variable)
"""
USERS = "print(open('/etc/passwd').read())"
LISTING = "import os\nfor each in os.listdir('@HOME@'):\n    print('found', each)"

CREATE = "open('@HOME@/@MARK@', 'w').write('x')"
APPEND = "open('@CANARY@', 'a').write('changed')"
DELETE = "import os\nos.unlink('@CANARY@')"
CHMOD = "import os\nos.chmod('@CANARY@', 0o777)"
HOOK = "import sysconfig\nopen(sysconfig.get_path('purelib') + '/@MARK@.pth', 'w').write('')"
TEMPORARY = "open('/tmp/@MARK@', 'w').write('x')"
OBJECTS_WRITE = """\
try:
    from js import process
    process.getBuiltinModule('fs').writeFileSync('@HOME@/@MARK@', 'x')
except ImportError:
    for each in ().__class__.__base__.__subclasses__():
        if each.__name__ == '_wrap_close':
            each.__init__.__globals__['__builtins__']['open']('@HOME@/@MARK@', 'w').write('x')
"""

SHELL = """\
import subprocess
print(subprocess.run(['sh', '-c', 'echo made-$((6 * 7))-@MARK@'], capture_output=True, text=True).stdout)
"""
DROPPED = """\
import os
with open('/usr/bin/echo', 'rb') as file:
    program = file.read()
descriptor = os.memfd_create('dropped')
os.write(descriptor, program)
print(end='', flush=True)
child = os.fork()
if child == 0:
    try:
        os.execve(descriptor, ['echo', 'made-' + str(6 * 7) + '-@MARK@'], {})
    finally:
        os._exit(1)
os.waitpid(child, 0)
"""
OBJECTS_SHELL = """\
command = 'echo made-$((6 * 7))-@MARK@'
try:
    from js import process
    print(process.getBuiltinModule('child_process').execSync(command, encoding='utf8'))
except ImportError:
    for each in ().__class__.__base__.__subclasses__():
        if each.__name__ == '_wrap_close':
            print(each.__init__.__globals__['popen'](command).read())
"""
KILL = "import os\nos.kill(@VICTIM@, 9)"
KILL_PARENT = "import os\nos.kill(os.getppid(), 9)\nos.kill(os.getpid(), 9)"

TCP = "import socket\nsocket.create_connection(('127.0.0.1', @TCP@), 2).sendall(b'@MARK@')"
UDP = "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'@MARK@', ('127.0.0.1', @UDP@))"
ABSTRACT = """\
import socket
sock = socket.socket(socket.AF_UNIX)
sock.connect(chr(0) + '@ABSTRACT@')
sock.sendall(b'@MARK@')
"""
UNIX = """\
import socket
sock = socket.socket(socket.AF_UNIX)
sock.connect('@UNIX@')
sock.sendall(b'@MARK@')
"""
OBJECTS_TCP = """\
import time
try:
    from js import process
    sock = process.getBuiltinModule('net').connect(@TCP@, '127.0.0.1')
    sock.write('@MARK@')
except ImportError:
    for each in ().__class__.__base__.__subclasses__():
        if each.__name__ == '_wrap_close':
            builtin = each.__init__.__globals__['__builtins__']
            socket = builtin['__import__']('socket')
            socket.create_connection(('127.0.0.1', @TCP@), 2).sendall(b'@MARK@')
"""

FORK_BOMB = """\
import os, signal, time
children = []
try:
    for number in range(220):
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            signal.pause()
            os._exit(0)
        children.append(child)
    time.sleep(1)
finally:
    for child in children:
        os.kill(child, 9)
    for child in children:
        os.waitpid(child, 0)
"""
MEMORY = """\
blocks = []
for number in range(44):
    blocks.append(b'x' * (64 << 20))
total = 0
for number in range(3000000):
    total += number
"""
CHILDREN_MEMORY = """\
import os, time
children = []
for number in range(5):
    child = os.fork()
    if child == 0:
        block = b'x' * (560 << 20)
        time.sleep(1.2)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""
OUTPUT = "for number in range(512):\n    print('x' * 65536)"
ENDLESS = "while True:\n    pass"
ENDLESS_IGNORING = """\
import signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
"""
NATIVE_LOOP = "print(len(str(7 ** (9 ** 9))))"

DETACH = """\
import ctypes, os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, b'@MARK@', 0, 0, 0)
        null = os.open('/dev/null', os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        time.sleep(30)
    os._exit(0)
"""
ORPHAN = DETACH + "time.sleep(0.3)"
ORPHAN_AFTER_TIMEOUT = DETACH + "while True:\n    pass"

VARIABLE_LEFT = "left = 'made-' + str(6 * 7) + '-@MARK@'"
MODULE_LEFT = "import math\nmath.left = 'made-' + str(6 * 7) + '-@MARK@'"
BUILTIN_LEFT = "import builtins\nbuiltins.left_here = 'made-' + str(6 * 7) + '-@MARK@'"
CLASS_LEFT = "import json\njson.JSONEncoder.left = 'made-' + str(6 * 7) + '-@MARK@'"
FILE_LEFT = """\
for path in ('left.txt', '/tmp/left-@MARK@', '/dev/shm/left-@MARK@'):
    try:
        open(path, 'w').write('made-' + str(6 * 7) + '-@MARK@')
    except OSError:
        continue
"""
FILE_READ = """\
import os
for path in ('left.txt', '/tmp/left-@MARK@', '/dev/shm/left-@MARK@'):
    try:
        print(open(path).read())
        os.unlink(path)
    except OSError:
        continue
"""

ATTACKS = (
    Attack("reads", "open a key in the home folder", OPEN, shows_secret),
    Attack("reads", "open the key by a symbolic link", SYMLINK, shows_secret),
    Attack("reads", "open the key by native code", NATIVE, shows_secret),
    Attack("reads", "open the key by objects of the interpreter", OBJECTS, shows_secret),
    Attack("reads", "open the key by a library that evaluates text", LIBRARY, shows_secret),
    Attack("reads", "list the home folder", LISTING, lists_home),
    Attack("reads", "read a token in the environment", ENVIRONMENT, shows_secret),
    Attack("reads", "read the environment of other processes", ENVIRONMENTS, shows_secret),
    Attack("reads", "read the machine's list of users", USERS, shows_users),
    Attack("writes", "create a file in the home folder", CREATE, made_file),
    Attack("writes", "create a file by objects of the interpreter", OBJECTS_WRITE, made_file),
    Attack("writes", "append to a file in the home folder", APPEND, changed_canary),
    Attack("writes", "delete a file in the home folder", DELETE, changed_canary),
    Attack("writes", "change the mode of a file in the home folder", CHMOD, changed_mode),
    Attack("writes", "plant code in the packages of Python", HOOK, made_package_hook),
    Attack("writes", "create a file in /tmp that others see", TEMPORARY, made_file_in_tmp),
    Attack("processes", "run a shell", SHELL, shows_made),
    Attack("processes", "run a shell by objects of the interpreter", OBJECTS_SHELL, shows_made),
    Attack("processes", "run a program from memory", DROPPED, shows_made),
    Attack("processes", "kill another process of the user", KILL, killed_victim),
    Attack("processes", "kill the tool that runs the script", KILL_PARENT, ended_peer),
    Attack("network", "connect to a TCP service", TCP, reached_listener),
    Attack("network", "connect to a TCP service by objects of the interpreter", OBJECTS_TCP, reached_listener),
    Attack("network", "send a UDP datagram", UDP, reached_listener),
    Attack("network", "connect to a socket in the file system", UNIX, reached_listener),
    Attack("network", "connect to an abstract socket", ABSTRACT, reached_listener),
    Attack("bombs", "start 220 processes", FORK_BOMB, many_processes),
    Attack("bombs", "use 2.8 GB of memory", MEMORY, much_memory),
    Attack("bombs", "use 2.8 GB in five processes", CHILDREN_MEMORY, much_memory),
    Attack("bombs", "print 32 MiB", OUTPUT, much_output),
    Attack("bombs", "compute without end", ENDLESS, still_computes, is_endless=True),
    Attack("bombs", "compute without end, ignoring signals", ENDLESS_IGNORING, still_computes, is_endless=True),
    Attack("bombs", "compute for long in one operation", NATIVE_LOOP, still_computes, is_endless=True),
    Attack("orphans", "leave a detached process", ORPHAN, left_process),
    Attack("orphans", "leave a detached process, and compute without end", ORPHAN_AFTER_TIMEOUT, left_process,
           is_endless=True),
    Attack("state between runs", "leave a variable", VARIABLE_LEFT, second_shows_made, "print(left)"),
    Attack("state between runs", "change a module", MODULE_LEFT, second_shows_made, "import math\nprint(math.left)"),
    Attack("state between runs", "change the built-in names", BUILTIN_LEFT, second_shows_made, "print(left_here)"),
    Attack("state between runs", "change a class of the library", CLASS_LEFT, second_shows_made,
           "import json\nprint(json.JSONEncoder.left)"),
    Attack("state between runs", "leave a file", FILE_LEFT, second_shows_made, FILE_READ),
)
KINDS = tuple(dict.fromkeys(attack.kind for attack in ATTACKS))


def package_folders(pids: list[int]) -> list[Path]:
    """Returns the folders of packages of the interpreters that run."""
    found = set()
    for pid in pids:
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue
        for argument in arguments:
            if "/bin/python" in argument and argument.startswith("/"):
                found |= set(Path(argument).parent.parent.glob("lib/python3*/site-packages"))
    return sorted(found)
