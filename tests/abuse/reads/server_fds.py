# attack: list the open files of a process outside
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: os.listdir("/proc/@VICTIM_PID@/fd"))
