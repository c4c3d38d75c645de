# attack: read the environment of the parent process
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/proc/%d/environ" % os.getppid()))
