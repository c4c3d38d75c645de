# attack: open the memory of a process outside
# t3: ENOENT
# t2: EACCES
# control: harm as root
attempt(lambda: os.open("/proc/@VICTIM_PID@/mem", os.O_RDWR))
