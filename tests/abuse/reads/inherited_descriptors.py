# attack: look for descriptors that the starting process left open
# t3: Denied
# warm: harm, gap: descriptor 3
# t2: Denied
# control: none, the plain executor leaves no descriptor open either


def attack():
    for number in range(3, 256):
        try:
            os.fstat(number)
        except OSError:
            continue
        return
    raise Denied()


attempt(attack)
