# attack: read the environment of the server from /proc
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/proc/@SERVER_PID@/environ"))
