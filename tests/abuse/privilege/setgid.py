# attack: change the group with setgid
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: in_child(lambda: os.setgid(12345)))
