# attack: open a file of the server's user by its absolute path
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: leaked(read_all("@SECRET@")))
