# attack: open the kernel's core dump helper setting for writing
# t3: ENOENT
# t2: EACCES
# control: harm as root
attempt(lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
