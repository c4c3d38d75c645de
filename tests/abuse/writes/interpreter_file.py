# attack: open the running interpreter for writing through /proc/self/exe
# t3: EROFS | EACCES | ETXTBSY
# t2: EACCES | ETXTBSY
# control: harm as root


def attack():
    try:
        os.open("/proc/self/exe", os.O_RDWR)
    except OSError as error:
        # ETXTBSY means that the rights sufficed, so another file could be renamed over this one
        if error.errno != errno.ETXTBSY:
            raise
        path = os.path.realpath(sys.executable) + ".@OUT_TAG@"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        os.unlink(path)


attempt(attack)
