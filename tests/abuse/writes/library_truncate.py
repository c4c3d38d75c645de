# attack: cut a library file with truncate (to its present size)
# t3: EROFS | EACCES
# t2: EACCES
# control: harm as root
attempt(lambda: os.truncate(os.__file__, os.stat(os.__file__).st_size))
