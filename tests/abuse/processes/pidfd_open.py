# attack: take a handle of another process
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: os.close(os.pidfd_open(int("@VICTIM_PID@"))))
