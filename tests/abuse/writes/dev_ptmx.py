# attack: make a new terminal pair
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
