# Tries to escape from the sandbox, and prints the names of the successful attempts as a JSON list. This script runs
# before the first script of a model, to detect a layer of the sandbox that has no effect. The server inserts TARGETS
# before this text. TARGETS contains objects outside of the sandbox, with the paths and PIDs that the server sees.
import json
import os


def read_file():
    with open(TARGETS["file"]) as file:
        return file.read()


def find_file():
    # Landlock does not forbid stat(). Only a separate file tree hides the file.
    return os.stat(TARGETS["file"])


def write_beside_file():
    with open(TARGETS["file"] + ".written", "w"):
        os.unlink(TARGETS["file"] + ".written")


def change_file_mode():
    os.chmod(TARGETS["file"], 0o600)


def list_root():
    return os.listdir("/")


def read_server_environment():
    with open("/proc/%d/environ" % TARGETS["server"], "rb") as file:
        return file.read()


def signal_server():
    # A parent PID of 0 means that the parent is outside of this process's PID namespace. Then the server's PID may
    # belong to a process of this run, for example if the server is the first process of a container.
    if os.getppid() == 0:
        raise ProcessLookupError
    os.kill(TARGETS["server"], 0)


def internet_socket():
    import _socket

    _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)


def local_socket():
    import _socket

    _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)


def execute_program():
    # Runs in a child, because a successful execv() replaces this script. If the run may not have children, this
    # process calls execv() itself. If execv() then succeeds, the script prints no list.
    try:
        child = os.fork()
    except PermissionError:
        os.execv(TARGETS["program"], [TARGETS["program"], "-c", ""])
    if child == 0:
        try:
            os.execv(TARGETS["program"], [TARGETS["program"], "-c", ""])
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError


def raise_limit():
    import resource

    limits = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_AS)
    if all(resource.getrlimit(limit)[1] != resource.RLIM_INFINITY for limit in limits):
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 1048576))


def make_device():
    import stat

    os.mknod("device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.unlink("device")


def become_root():
    os.setuid(0)


WAYS = {
    "read_file": read_file,
    "find_file": find_file,
    "write_beside_file": write_beside_file,
    "change_file_mode": change_file_mode,
    "list_root": list_root,
    "read_server_environment": read_server_environment,
    "signal_server": signal_server,
    "internet_socket": internet_socket,
    "local_socket": local_socket,
    "execute_program": execute_program,
    "raise_limit": raise_limit,
    "make_device": make_device,
    "become_root": become_root,
}
# The attempts for this operating system only. They replace attempts with the same name.
WAYS.update(globals().get("MORE_WAYS", {}))

opened = []
for name, way in WAYS.items():
    try:
        way()
    except (OSError, ValueError):
        continue
    opened.append(name)
print(json.dumps(opened))
