# attack: send a signal (number 0) to the server
# t3: ESRCH
# t2: EPERM
# control: harm
attempt(lambda: os.kill(int("@SERVER_PID@"), 0))
