# attack: look for descriptors that the starting process left open
# t3: Denied
# warm: harm, gap: descriptor 3
# t2: Denied
# control: none, the plain executor leaves no descriptor open either


def attack():
    import fcntl, stat

    for number in range(3, 256):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        is_writable_only = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        if number == 20 and stat.S_ISFIFO(mode) and is_writable_only:
            # This is the pipe for pictures.
            continue
        return
    raise Denied()


attempt(attack)
