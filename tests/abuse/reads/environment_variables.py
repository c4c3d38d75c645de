# attack: look for variables of the server in the own environment
# t3: Denied
# t2: Denied
# control: none, depends on what the plain executor passes on


def attack():
    known = {"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE"}
    for name in os.environ:
        if name not in known and not name.startswith("PYTHON") and not name.endswith("_NUM_THREADS"):
            return
    raise Denied()


attempt(attack)
