# attack: plant a symbolic link outside that leads to /etc/passwd
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    os.symlink("/etc/passwd", "@OUTSIDE@/@OUT_TAG@s")
    os.unlink("@OUTSIDE@/@OUT_TAG@s")


attempt(attack)
