# attack: start the interpreter again, without the checks of this one
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    os.execv(os.path.realpath(sys.executable), ["python3", "-I", "-S", "-c", "pass"])


attempt(lambda: in_child(attack))
