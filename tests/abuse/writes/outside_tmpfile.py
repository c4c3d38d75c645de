# attack: make a nameless file on the disk outside
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: reached(lambda: os.open("@OUTSIDE@", os.O_TMPFILE | os.O_RDWR, 0o600), errno.EOPNOTSUPP))
