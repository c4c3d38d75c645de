# attack: fill /dev/shm with 100 megabytes
# t3: ENOSPC
# t2: EACCES
# control: harm


def attack():
    made = []
    part = b"x" * (10 << 20)
    try:
        for number in range(10):
            path = "/dev/shm/@OUT_TAG@%d" % number
            with open(path, "wb", buffering=0) as file:
                made.append(path)
                if file.write(part) != len(part):
                    file.write(part)
    finally:
        for path in made:
            os.unlink(path)


attempt(attack)
