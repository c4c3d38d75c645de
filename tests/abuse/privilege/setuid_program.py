# attack: start a set-user-id program
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    os.execv("/bin/mount", ["mount", "--version"])


attempt(lambda: in_child(attack))
