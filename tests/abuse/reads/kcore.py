# attack: open the memory of the kernel, with an odd spelling of the path
# t3: ENOENT
# t2: EACCES
# control: harm as root


def attack():
    # if this file is missing, the kernel's symbols show the same gap
    name = "kcore" if os.path.exists("/proc/kcore") else "kallsyms"
    os.open("//proc/./" + name, os.O_RDONLY)


attempt(attack)
