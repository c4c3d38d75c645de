# attack: walk to the secret through /proc/thread-self
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: leaked(read_all("/proc/thread-self/root" + "@SECRET@")))
