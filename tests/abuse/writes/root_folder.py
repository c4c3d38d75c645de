# attack: make a folder in the root folder
# t3: EROFS | EACCES
# t2: EACCES
# control: harm as root


def attack():
    os.mkdir("/@OUT_TAG@")
    os.rmdir("/@OUT_TAG@")


attempt(attack)
