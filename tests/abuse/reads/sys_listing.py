# attack: list /sys to learn the hardware and the kernel settings
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: os.listdir("/sys"))
