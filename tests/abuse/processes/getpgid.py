# attack: learn whether a process number is in use
# t3: ESRCH
# t2: harm, gap: process numbers visible
# control: harm
attempt(lambda: os.getpgid(int("@VICTIM_PID@")))
