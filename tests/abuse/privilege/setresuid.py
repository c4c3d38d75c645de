# attack: become another user with setresuid
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: in_child(lambda: os.setresuid(12345, 12345, 12345)))
