# attack: walk to the secret through /proc/self/cwd and ..
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: leaked(read_all("/proc/self/cwd/" + "../" * 40 + "@SECRET@".lstrip("/"))))
