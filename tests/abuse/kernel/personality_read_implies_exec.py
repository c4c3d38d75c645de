# attack: make all readable memory executable
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: in_child(lambda: syscall("personality", 0x400000)))
