# attack: set an extended attribute on a file outside
# t3: ENOENT | EPERM
# t2: EPERM
# control: harm


def attack():
    def change():
        os.setxattr("@OUTSIDE@/victim.txt", "user.abuse", b"1")
        os.removexattr("@OUTSIDE@/victim.txt", "user.abuse")

    reached(change, errno.EOPNOTSUPP)


attempt(attack)
