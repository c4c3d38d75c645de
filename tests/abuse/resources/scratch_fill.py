# attack: fill the scratch folder with many files of 10 megabytes
# t3: ENOSPC
# t2: harm, gap: scratch quota
# control: harm


def attack():
    part = b"x" * (10 << 20)
    for number in range(20):
        with open("part%d" % number, "wb", buffering=0) as file:
            if file.write(part) != len(part):
                file.write(part)


attempt(attack)
