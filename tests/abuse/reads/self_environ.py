# attack: read the environment with which this process was started
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/proc/self/environ"))
