# attack: become root of a new user namespace and write its user map
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    user = os.getuid()
    syscall("unshare", 0x10000000)
    with open("/proc/self/uid_map", "w") as file:
        file.write("0 %d 1" % user)


attempt(lambda: in_child(attack))
