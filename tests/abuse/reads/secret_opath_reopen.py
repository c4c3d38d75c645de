# attack: hold an O_PATH handle of the secret and read it through /proc/self/fd
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    handle = os.open("@SECRET@", os.O_PATH)
    leaked(read_all("/proc/self/fd/%d" % handle))


attempt(attack)
