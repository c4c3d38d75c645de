# attack: change the owner of a file outside (to the same owner)
# t3: ENOENT | EPERM
# t2: EPERM
# control: harm
attempt(lambda: os.chown("@OUTSIDE@/victim.txt", os.getuid(), -1))
