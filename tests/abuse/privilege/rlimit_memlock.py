# attack: raise the limit of the locked memory
# t3: ValueError
# t2: ValueError
# control: harm
import resource

attempt(lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20)))
