# Helpers put in front of every abuse case.
import errno
import os
import sys


class Denied(Exception):
    """Raised by a case that sees by itself that the attack had no effect."""


NR = {  # x86_64 system call numbers
    "clone": 56, "execveat": 322, "ptrace": 101, "syslog": 103, "setfsuid": 122,
    "capget": 125, "capset": 126, "personality": 135, "modify_ldt": 154,
    "pivot_root": 155, "prctl": 157, "adjtimex": 159, "acct": 163,
    "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167,
    "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172,
    "init_module": 175, "quotactl": 179,
    "remap_file_pages": 216, "clock_settime": 227, "tgkill": 234, "mq_open": 240,
    "mq_unlink": 241, "kexec_load": 246, "add_key": 248, "request_key": 249,
    "keyctl": 250, "ioprio_set": 251, "inotify_init1": 294, "inotify_add_watch": 254,
    "get_robust_list": 274, "move_pages": 279, "semget": 64, "semctl": 66,
    "msgget": 68, "msgctl": 71, "shmget": 29, "shmctl": 31, "unshare": 272,
    "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "perf_event_open": 298,
    "fanotify_init": 300, "prlimit64": 302, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308,
    "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "sched_setattr": 314, "renameat2": 316, "seccomp": 317,
    "memfd_create": 319, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    "linkat": 265, "pidfd_send_signal": 424, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fspick": 433, "pidfd_open": 434,
    "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "memfd_secret": 447, "process_mrelease": 448,
    "fchmodat2": 452, "listmount": 458, "getpid": 39, "connect": 42, "listen": 50,
    "setuid": 105, "setgid": 106, "mlock": 149, "mlockall": 151,
}
AT_FDCWD = -100


def syscall(call, *args):
    """A raw system call by name or number; OSError when it fails."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    number = NR[call] if isinstance(call, str) else call
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *values)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def reached(function, *codes):
    """These errors mean that the kernel let the call in and worked on it."""
    try:
        return function()
    except OSError as error:
        if error.errno not in codes:
            raise


def in_child(function):
    """Run it in a forked child (exec included); its error is raised here."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            function()
            code = 0
        except OSError as error:
            code = error.errno or 255
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        raise Denied("signal %d" % os.WTERMSIG(status))
    if os.WEXITSTATUS(status) == 255:
        raise Denied("child failed")
    if os.WEXITSTATUS(status):
        raise OSError(os.WEXITSTATUS(status), "in the child")


def leaked(data):
    """The read counts only if it brought the planted text."""
    if b"planted-secret" not in bytes(data):
        raise Denied("other text")


def read_all(path):
    with open(path, "rb") as file:
        return file.read()


def split_into_mappings(count):
    """Private memory of as many mappings: each second page has other rights."""
    import ctypes
    import mmap
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    block = mmap.mmap(-1, count * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for page in range(1, count, 2):
        if libc.mprotect(at + page * mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ):
            raise OSError(ctypes.get_errno(), "mprotect")
    return block


def attempt(function):
    """Run the attack and print one RESULT line."""
    try:
        function()
        result = "harm"
    except OSError as error:
        result = errno.errorcode.get(error.errno) or type(error).__name__
    except Exception as error:
        result = type(error).__name__
    print("RESULT " + result, flush=True)


