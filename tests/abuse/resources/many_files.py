# attack: make 6000 empty files
# t3: ENOSPC
# t2: harm, gap: scratch quota
# control: harm


def attack():
    for number in range(6000):
        os.close(os.open("f%d" % number, os.O_WRONLY | os.O_CREAT, 0o600))


attempt(attack)
