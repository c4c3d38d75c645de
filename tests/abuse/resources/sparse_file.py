# attack: make a file that claims to be one terabyte
# t3: EFBIG
# t2: EFBIG
# control: harm


def attack():
    with open("sparse", "wb") as file:
        file.truncate(1 << 40)


attempt(attack)
