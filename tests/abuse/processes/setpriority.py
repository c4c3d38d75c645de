# attack: change the priority of another process (to a lower one)
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: os.setpriority(os.PRIO_PROCESS, int("@VICTIM_PID@"), 19))
