# attack: let the dynamic loader start a program
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    loader = "/lib64/ld-linux-x86-64.so.2" if IS_X86 else "/lib/ld-linux-aarch64.so.1"
    os.execv(loader, ["ld", os.path.realpath(sys.executable), "--version"])


attempt(lambda: in_child(attack))
