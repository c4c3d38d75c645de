# attack: climb out of the scratch folder with .. relative to a folder descriptor
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    file = os.open("../" * 40 + "@SECRET@".lstrip("/"), os.O_RDONLY, dir_fd=here)
    leaked(os.read(file, 100))


attempt(attack)
