# attack: read the kernel log from its device
# t3: ENOENT
# t2: EACCES
# control: harm as root
attempt(lambda: os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
