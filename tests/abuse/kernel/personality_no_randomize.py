# attack: switch the randomised addresses off
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: in_child(lambda: syscall("personality", 0x40000)))
