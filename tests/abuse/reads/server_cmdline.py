# attack: read the command line of the server
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/proc/@SERVER_PID@/cmdline"))
