# attack: read the mount table as process 1 sees it
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/proc/1/mountinfo"))
