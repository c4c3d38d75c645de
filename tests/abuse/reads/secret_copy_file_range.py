# attack: copy the secret with copy_file_range
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    source = os.open("@SECRET@", os.O_RDONLY | os.O_NOATIME)
    target = os.open("copy", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.copy_file_range(source, target, 100)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        os.write(target, os.read(source, 100))
    leaked(os.pread(target, 100, 0))


attempt(attack)
