# Tries to get out of the sandbox, and prints the ways that were open, as a JSON list of their names.
# Run before the first script of a model: a layer that is there on paper only is found here.
# TARGETS is put before this text: the things outside, as the server sees them.
import json
import os


def read_file():
    with open(TARGETS["file"]) as file:
        return file.read()


def find_file():
    # Landlock does not forbid to ask what there is; only a file tree of the run's own does.
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
    os.kill(TARGETS["server"], 0)


def internet_socket():
    import _socket

    _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)


def local_socket():
    import _socket

    _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)


def execute_program():
    # In a child, because where it works nothing of this script is left. A run that may not have
    # children tries it itself: where it works, this script does not run to its end.
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
# Those of this system alone, in place of the ones of the same name.
WAYS.update(globals().get("MORE_WAYS", {}))

opened = []
for name, way in WAYS.items():
    try:
        way()
    except (OSError, ValueError):
        continue
    opened.append(name)
print(json.dumps(opened))
