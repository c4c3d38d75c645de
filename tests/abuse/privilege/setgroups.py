# attack: drop all extra groups, which can hold denials
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: in_child(lambda: os.setgroups([])))
