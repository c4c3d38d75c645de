# attack: execute the interpreter by its descriptor with the raw execveat call
# t3: EPERM
# t2: EPERM
# control: harm
import ctypes


def attack():
    file = os.open(os.path.realpath(sys.executable), os.O_RDONLY)
    words = (ctypes.c_char_p * 3)(b"x", b"--version", None)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    syscall("execveat", file, b"", words, (ctypes.c_char_p * 1)(None), 0x1000)


attempt(lambda: in_child(attack))
