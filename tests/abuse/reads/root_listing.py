# attack: list the root folder
# t3: EACCES
# t2: EACCES
# control: harm
attempt(lambda: os.listdir("/"))
