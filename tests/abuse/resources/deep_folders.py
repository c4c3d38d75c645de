# attack: nest 4500 folders, which breaks simple clean-up code
# t3: ENOSPC
# t2: harm, gap: scratch quota
# control: harm


def attack():
    depth = 0
    try:
        for _ in range(4500):
            os.mkdir("d")
            os.chdir("d")
            depth += 1
    finally:
        for _ in range(depth):
            os.chdir("..")
            os.rmdir("d")


attempt(attack)
