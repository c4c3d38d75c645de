# attack: splice the secret into a pipe
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    source = os.open(b"//" + b"@SECRET@", os.O_RDONLY)
    reader, writer = os.pipe()
    syscall("splice", source, None, writer, None, 100, 0)
    leaked(os.read(reader, 100))


attempt(attack)
