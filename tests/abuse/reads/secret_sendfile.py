# attack: let the kernel copy it into a scratch file with sendfile
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    source = os.open("@SECRET@", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    target = os.open("copy", os.O_RDWR | os.O_CREAT, 0o600)
    os.sendfile(target, source, 0, 100)
    leaked(os.pread(target, 100, 0))


attempt(attack)
