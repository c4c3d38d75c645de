# attack: open the standard input of a process outside through /proc
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: os.open("/proc/@VICTIM_PID@/fd/0", os.O_RDONLY | os.O_NONBLOCK))
