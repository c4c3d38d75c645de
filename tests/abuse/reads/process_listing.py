# attack: list all processes of the machine
# t3: EACCES | Denied
# t2: EACCES
# control: harm


def attack():
    if not any(name.isdigit() for name in os.listdir("/proc")):
        raise Denied()


attempt(attack)
