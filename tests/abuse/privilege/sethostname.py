# attack: rename the machine (to its present name)
# t3: EPERM
# t2: EPERM
# control: harm as root
name = os.uname().nodename.encode()
attempt(lambda: syscall("sethostname", name, len(name)))
