# attack: make 60000 folders, which breaks clean-up code with quadratic cost
# t3: ENOSPC
# t2: harm, gap: scratch quota
# control: harm


def attack():
    for number in range(60000):
        os.mkdir("d%d" % number)


attempt(attack)
