# attack: open the terminal of the session
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: reached(lambda: os.open("/dev/tty", os.O_RDWR), errno.ENXIO))
