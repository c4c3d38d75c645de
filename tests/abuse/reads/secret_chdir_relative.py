# attack: chdir to the folder of the secret and open it by its bare name
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    os.chdir(os.path.dirname("@SECRET@"))
    leaked(read_all(os.path.basename("@SECRET@")))


attempt(attack)
