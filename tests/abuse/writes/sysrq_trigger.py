# attack: open the kernel's emergency trigger for writing
# t3: ENOENT
# t2: EACCES
# control: harm as root


def attack():
    path = "/proc/sysrq-trigger"
    os.open(path if os.path.exists(path) else "/proc/sys/vm/drop_caches", os.O_WRONLY)


attempt(attack)
