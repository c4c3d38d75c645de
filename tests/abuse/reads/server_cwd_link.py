# attack: read where the working folder of a process outside is
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: os.readlink("/proc/@VICTIM_PID@/cwd"))
