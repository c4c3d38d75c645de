# attack: read the password hashes
# t3: ENOENT
# t2: EACCES
# control: harm as root
attempt(lambda: read_all("/etc/shadow"))
