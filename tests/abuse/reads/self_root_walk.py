# attack: walk to the secret through /proc/self/root
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: leaked(read_all("/proc/self/root" + "@SECRET@")))
