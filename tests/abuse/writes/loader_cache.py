# attack: open the cache of the dynamic loader for writing
# t3: EROFS | EACCES
# t2: EACCES
# control: harm as root
attempt(lambda: os.open("/etc/ld.so.cache", os.O_WRONLY))
