# attack: send a signal (number 0) to another process of the same user
# t3: ESRCH
# t2: EPERM
# control: harm
attempt(lambda: os.kill(int("@VICTIM_PID@"), 0))
