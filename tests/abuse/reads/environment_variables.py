# attack: look for the server's variables in this process's environment
# t3: Denied
# t2: Denied
# control: none, depends on the variables that the executor passes on


def attack():
    known = {"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE"}
    for name in os.environ:
        if name not in known and not name.startswith("PYTHON") and not name.endswith("_NUM_THREADS"):
            return
    raise Denied()


attempt(attack)
