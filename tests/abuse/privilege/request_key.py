# attack: ask for a kernel key, which can start a helper of the machine
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: reached(lambda: syscall("request_key", b"user", b"@OUT_TAG@", None, 0), errno.ENOKEY))
