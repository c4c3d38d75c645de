# attack: send a signal (number 0) to the process group of another process
# t3: ESRCH
# t2: EPERM
# control: harm
attempt(lambda: os.killpg(os.getpgid(int("@VICTIM_PID@")), 0))
