# Attempts to escape that exist only on macOS, or that differ on macOS. The server inserts this text before canary.py.


def system_library():
    import ctypes

    return ctypes.CDLL(TARGETS["library"], use_errno=True)


def found(result):
    # Raises an error if the attempt failed, like the other attempts.
    if not result:
        raise OSError


def connect_to_internet():
    # Connect the socket, because Seatbelt may allow its creation. Connecting a datagram socket sends nothing.
    import _socket

    _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM).connect(("127.0.0.1", 9))


def listen():
    import _socket

    _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM).bind(("127.0.0.1", 0))


def connect_to_service():
    # Connects to the system's name resolver, which accepts connections of all users.
    import _socket

    _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM).connect("/private/var/run/mDNSResponder")


def make_process():
    import os

    if os.fork() == 0:
        os._exit(0)


def spawn_program():
    import os

    os.posix_spawn(TARGETS["program"], [TARGETS["program"], "-S", "-c", ""], {})


def replace_program():
    # A successful execv() replaces this script. The script then prints no list.
    import os

    os.execv(TARGETS["program"], [TARGETS["program"], "-S", "-c", ""])


def raise_mac_limit():
    import resource

    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)
    if all(resource.getrlimit(kind)[1] != resource.RLIM_INFINITY for kind in kinds):
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 1048576))


def list_home():
    import os

    found(os.listdir(TARGETS["home"]))


def signal_another():
    # Signals launchd. The kernel always denies this, because launchd belongs to another user. signal_server tries a
    # process of the same user.
    import os

    os.kill(1, 0)


def read_server_arguments():
    # kern.procargs2 returns the arguments and the environment of a process of the same user.
    import ctypes

    try:
        call = system_library().sysctl
    except AttributeError:
        raise OSError
    name = (ctypes.c_int * 3)(1, 49, TARGETS["server"])
    buffer = ctypes.create_string_buffer(1 << 18)
    size = ctypes.c_size_t(len(buffer))
    found(call(name, 3, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) == 0)


def look_up_service():
    # Looks up the pasteboard through the launchd port that every process has.
    import ctypes

    try:
        library = system_library()
        port = ctypes.c_uint.in_dll(library, "bootstrap_port")
        call = library.bootstrap_look_up
    except (AttributeError, ValueError):
        raise OSError
    service = ctypes.c_uint()
    found(call(port, b"com.apple.pasteboard.1", ctypes.byref(service)) == 0)


def map_own_code():
    # Maps a file that the script wrote as executable memory.
    import mmap, os

    with open("code", "wb") as file:
        file.write(bytes(mmap.PAGESIZE))
    try:
        with open("code", "rb") as file:
            mmap.mmap(
                file.fileno(), mmap.PAGESIZE, flags=mmap.MAP_PRIVATE,
                prot=mmap.PROT_READ | mmap.PROT_EXEC,
            ).close()
    finally:
        os.unlink("code")


def make_named_pipe():
    import os, stat

    os.mknod("pipe", stat.S_IFIFO | 0o600)
    os.unlink("pipe")


MORE_WAYS = {
    "internet_socket": connect_to_internet,
    "internet_listener": listen,
    "local_socket": connect_to_service,
    "make_process": make_process,
    "spawn_program": spawn_program,
    "raise_limit": raise_mac_limit,
    "list_home": list_home,
    "signal_another": signal_another,
    "read_server_arguments": read_server_arguments,
    "look_up_service": look_up_service,
    "map_own_code": map_own_code,
    "make_named_pipe": make_named_pipe,
    "execute_program": replace_program,
}
