# attack: open a pipe file outside to talk with another process
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: os.open("@FIFO@", os.O_RDWR | os.O_NONBLOCK))
