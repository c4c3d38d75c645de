# attack: store data in a kernel key ring
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: syscall("add_key", b"user", b"@OUT_TAG@", b"x", 1, -2))
