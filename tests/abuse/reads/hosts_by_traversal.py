# attack: reach /etc/hosts from an allowed folder with ..
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: read_all("/usr/lib/../../etc/hosts"))
