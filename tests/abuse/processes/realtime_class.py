# attack: run in the real-time class, before every other process
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: in_child(lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))))
