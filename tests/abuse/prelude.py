# Functions and names that the harness inserts before every attack.
import errno
import os
import sys


class Denied(Exception):
    """Raised by an attack that had no effect."""


NR = {  # the numbers of system calls on x86_64 and aarch64
    "clone": (56, 220), "execveat": (322, 281), "ptrace": (101, 117), "syslog": (103, 116),
    "setfsuid": (122, 151), "capget": (125, 90), "capset": (126, 91), "personality": (135, 92),
    "modify_ldt": (154, None), "pivot_root": (155, 41), "prctl": (157, 167), "adjtimex": (159, 171),
    "acct": (163, 89), "settimeofday": (164, 170), "mount": (165, 40), "umount2": (166, 39),
    "swapon": (167, 224), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "init_module": (175, 105),
    "quotactl": (179, 60), "remap_file_pages": (216, 234), "clock_settime": (227, 112),
    "tgkill": (234, 131), "mq_open": (240, 180), "mq_unlink": (241, 181), "kexec_load": (246, 104),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "ioprio_set": (251, 30),
    "inotify_init1": (294, 26), "inotify_add_watch": (254, 27), "get_robust_list": (274, 100),
    "move_pages": (279, 239), "semget": (64, 190), "semctl": (66, 191), "msgget": (68, 186),
    "msgctl": (71, 187), "shmget": (29, 194), "shmctl": (31, 195), "unshare": (272, 97),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "perf_event_open": (298, 241),
    "fanotify_init": (300, 262), "prlimit64": (302, 261), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "clock_adjtime": (305, 266), "setns": (308, 268),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "finit_module": (313, 273), "sched_setattr": (314, 274), "renameat2": (316, 276),
    "seccomp": (317, 277), "memfd_create": (319, 279), "kexec_file_load": (320, 294),
    "bpf": (321, 280), "userfaultfd": (323, 282), "linkat": (265, 37),
    "pidfd_send_signal": (424, 424), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fspick": (433, 433), "pidfd_open": (434, 434), "clone3": (435, 435),
    "openat2": (437, 437), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "mount_setattr": (442, 442), "memfd_secret": (447, 447), "process_mrelease": (448, 448),
    "fchmodat2": (452, 452), "listmount": (458, 458), "getpid": (39, 172), "connect": (42, 203),
    "listen": (50, 201), "setuid": (105, 146), "setgid": (106, 144), "mlock": (149, 228),
    "mlockall": (151, 230), "exit": (60, 93), "splice": (275, 76),
}
IS_X86 = os.uname().machine == "x86_64"
AT_FDCWD = -100


def syscall(call, *args):
    """Makes a raw system call, given by its name or number. Raises OSError if it fails."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    number = NR[call][0 if IS_X86 else 1] if isinstance(call, str) else call
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *values)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def reached(function, *codes):
    """Calls a function. Ignores these errors, because they show that the kernel accepted the call."""
    try:
        return function()
    except OSError as error:
        if error.errno not in codes:
            raise


def in_child(function):
    """Runs a function in a forked child, which may call exec. Raises the child's error."""
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
    """Raises Denied unless the data contains the planted text."""
    if b"planted-secret" not in bytes(data):
        raise Denied("other text")


def read_all(path):
    with open(path, "rb") as file:
        return file.read()


def split_into_mappings(count):
    """Returns private memory with this many mappings. The mappings are separate, because every second page has
    different rights."""
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
    """Runs the attack and prints one RESULT line."""
    try:
        function()
        result = "harm"
    except OSError as error:
        result = errno.errorcode.get(error.errno) or type(error).__name__
    except Exception as error:
        result = type(error).__name__
    print("RESULT " + result, flush=True)


