# attack: read the list of users
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/etc/passwd"))
