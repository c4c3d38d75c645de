# attack: write a file of more than 64 megabytes
# t3: EFBIG
# t2: EFBIG
# control: harm


def attack():
    part = b"x" * (1 << 20)
    with open("big", "wb", buffering=0) as file:
        for _ in range(66):
            if file.write(part) != len(part):
                file.write(part)


attempt(attack)
