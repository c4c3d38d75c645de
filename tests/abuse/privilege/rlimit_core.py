# attack: raise the limit of the core dump size
# t3: ValueError
# t2: ValueError
# control: harm
import resource

attempt(lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)))
