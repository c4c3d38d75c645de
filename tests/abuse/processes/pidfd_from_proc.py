# attack: signal another process through its folder in /proc
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    folder = os.open("/proc/@VICTIM_PID@", os.O_RDONLY | os.O_DIRECTORY)
    syscall("pidfd_send_signal", folder, 0, None, 0)


attempt(attack)
