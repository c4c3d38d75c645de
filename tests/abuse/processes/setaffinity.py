# attack: move another process to other cores (to its present ones)
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: os.sched_setaffinity(int("@VICTIM_PID@"), range(os.cpu_count())))
