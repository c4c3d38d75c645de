# attack: learn on which cores another process may run
# t3: ESRCH | EPERM
# t2: harm, gap: process numbers visible
# control: harm
attempt(lambda: os.sched_getaffinity(int("@VICTIM_PID@")))
