# attack: take an O_PATH handle of / and open the secret relative to it
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    file = os.open("@SECRET@".lstrip("/"), os.O_RDONLY, dir_fd=root)
    leaked(os.read(file, 100))


attempt(attack)
