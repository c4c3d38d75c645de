# attack: compare kernel objects of this process, which reveals their order in memory
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: syscall("kcmp", os.getpid(), os.getpid(), 0, 0, 1))
