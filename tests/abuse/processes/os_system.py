# attack: run a shell command with os.system
# t3: Denied
# t2: Denied
# control: harm


def attack():
    if os.system("exit 0") != 0:
        raise Denied()


attempt(attack)
