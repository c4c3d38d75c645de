# attack: learn size, owner and times of a secret with stat
# t3: ENOENT
# t2: harm, gap: metadata
# control: harm
attempt(lambda: os.stat("@SECRET@"))
