# attack: open a source file of the standard library for writing
# t3: EROFS | EACCES
# t2: EACCES
# control: harm as root
attempt(lambda: open(os.__file__, "r+b").close())
