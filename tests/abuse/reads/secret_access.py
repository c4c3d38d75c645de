# attack: probe with access() whether a secret exists
# t3: Denied
# t2: harm, gap: metadata
# control: harm


def attack():
    if not os.access("@SECRET@", os.F_OK):
        raise Denied()


attempt(attack)
