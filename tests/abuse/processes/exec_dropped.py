# attack: write a program into the scratch folder and execute it
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    data = read_all(os.path.realpath(sys.executable))
    file = os.open("dropped", os.O_WRONLY | os.O_CREAT, 0o700)
    while data:
        data = data[os.write(file, data):]
    os.close(file)
    null = os.open("/dev/null", os.O_WRONLY)
    in_child(lambda: (os.dup2(null, 1), os.execv("./dropped", ["dropped", "--version"])))


attempt(attack)
