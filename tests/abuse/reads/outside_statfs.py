# attack: learn type and free space of the disk outside
# t3: ENOENT
# t2: harm, gap: metadata
# control: harm
attempt(lambda: os.statvfs("@OUTSIDE@"))
