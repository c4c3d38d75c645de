# attack: list the folder in which the secret lies
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: os.listdir(os.path.dirname("@SECRET@")))
