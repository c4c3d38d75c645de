# attack: execute a program that lies in a folder outside
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: in_child(lambda: os.execv("@OUTSIDE@/true", ["true"])))
