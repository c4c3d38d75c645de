# attack: open a control group file for writing, to leave this group
# t3: ENOENT
# t2: EACCES
# control: harm as root


def attack():
    first = None
    for folder in ("", "/unified", "/memory", "/pids", "/systemd"):
        try:
            os.open("/sys/fs/cgroup" + folder + "/cgroup.procs", os.O_WRONLY)
            return
        except OSError as error:
            if first is None or first.errno == errno.ENOENT:
                first = error
    raise first


attempt(attack)
