# attack: fill the scratch folder with three files that are each below the file limit
# t3: ENOSPC
# t2: harm, gap: scratch quota
# control: harm


def attack():
    part = b"x" * (1 << 20)
    for number in range(3):
        with open("big%d" % number, "wb", buffering=0) as file:
            for _ in range(60):
                file.write(part)


attempt(attack)
