# attack: open the memory of the kernel, with an odd spelling of the path
# t3: ENOENT
# t2: EACCES
# control: harm as root


def attack():
    # a kernel without this file still shows its symbols
    name = "kcore" if os.path.exists("/proc/kcore") else "kallsyms"
    os.open("//proc/./" + name, os.O_RDONLY)


attempt(attack)
