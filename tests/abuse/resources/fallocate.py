# attack: reserve 200 megabytes of disk in one call
# t3: EFBIG | ENOSPC
# t2: EFBIG | ENOSPC
# control: harm


def attack():
    file = os.open("reserved", os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(file, 0, 200 << 20)


attempt(attack)
