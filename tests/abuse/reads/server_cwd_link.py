# attack: read the path of an outside process's working folder
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: os.readlink("/proc/@VICTIM_PID@/cwd"))
