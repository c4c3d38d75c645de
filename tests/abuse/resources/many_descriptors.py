# attack: open 600 descriptors
# t3: EMFILE
# t2: EMFILE
# control: harm


def attack():
    for _ in range(600):
        os.open("/dev/null", os.O_RDONLY)


attempt(attack)
