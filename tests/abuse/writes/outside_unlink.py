# attack: delete a file outside
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    path = "@OUTSIDE@/victim.txt"
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(b"untouched")
    os.chmod(path, 0o644)


attempt(attack)
