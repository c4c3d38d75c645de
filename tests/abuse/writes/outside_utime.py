# attack: change the times of a file outside
# t3: ENOENT | EPERM
# t2: EPERM
# control: harm
attempt(lambda: os.utime("@OUTSIDE@/victim.txt", (1, 1)))
