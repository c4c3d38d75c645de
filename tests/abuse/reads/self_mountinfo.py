# attack: read the mount table to learn the disks of the machine
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/proc/self/mountinfo"))
