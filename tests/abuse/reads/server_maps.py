# attack: read the memory layout of a process outside
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/proc/@VICTIM_PID@/maps"))
