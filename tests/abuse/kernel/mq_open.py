# attack: make a POSIX message queue, which other users can see
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    os.close(syscall("mq_open", b"@OUT_TAG@", os.O_RDWR | os.O_CREAT, 0o600, None))
    syscall("mq_unlink", b"@OUT_TAG@")


attempt(attack)
