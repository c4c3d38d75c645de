# attack: replace this very process, so that output comes from another program
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: os.execv("/bin/sh", ["sh", "-c", "echo RESULT harm"]))
