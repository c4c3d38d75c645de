# attack: raise the limit of the number of processes
# t3: ValueError
# t2: ValueError
# control: harm
import resource

attempt(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (12_000, 12_000)))
