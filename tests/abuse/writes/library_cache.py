# attack: plant byte code next to the standard library
# t3: EROFS | EACCES
# t2: EACCES
# control: harm as root


def attack():
    folder = os.path.join(os.path.dirname(os.__file__), "__pycache__")
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    path = os.path.join(folder, "@OUT_TAG@.pyc")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
    os.unlink(path)


attempt(attack)
