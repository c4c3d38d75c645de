# attack: walk to the secret through the root folder of a process outside
# t3: ENOENT
# t2: EACCES
# control: harm
attempt(lambda: leaked(read_all("/proc/@VICTIM_PID@/root" + "@SECRET@")))
