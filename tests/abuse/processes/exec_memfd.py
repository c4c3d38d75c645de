# attack: execute a program that exists in memory only
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    file = os.memfd_create("x", 0)
    data = read_all(os.path.realpath(sys.executable))
    while data:
        data = data[os.write(file, data):]
    null = os.open("/dev/null", os.O_WRONLY)
    in_child(lambda: (os.dup2(null, 1), os.execve(file, ["x", "--version"], {})))


attempt(attack)
