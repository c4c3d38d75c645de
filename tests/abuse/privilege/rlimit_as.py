# attack: raise the limit of the address space
# t3: ValueError
# t2: ValueError
# control: harm
import resource

attempt(lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)))
