# attack: empty a file outside by opening it read-only with O_TRUNC
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    path = "@OUTSIDE@/victim.txt"
    os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))
    with open(path, "wb") as file:
        file.write(b"untouched")


attempt(attack)
