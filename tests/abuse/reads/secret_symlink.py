# attack: read a secret through a symbolic link made in the scratch folder
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    os.symlink("@SECRET@", "link")
    leaked(read_all("link"))


attempt(attack)
