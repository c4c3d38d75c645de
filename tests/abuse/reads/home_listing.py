# attack: list the home folders of the machine
# t3: ENOENT | EACCES
# t2: EACCES
# control: harm
attempt(lambda: os.listdir("/home"))
