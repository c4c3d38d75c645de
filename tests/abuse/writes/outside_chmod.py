# attack: change the mode of a file outside
# t3: ENOENT | EPERM
# t2: EPERM
# control: harm
attempt(lambda: os.chmod("@OUTSIDE@/victim.txt", 0o644))
