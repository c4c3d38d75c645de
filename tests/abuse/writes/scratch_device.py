# attack: make a character device for the physical memory in the scratch folder
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: os.mknod("mem", 0o20600, os.makedev(1, 1)))
