# attack: raise the limit of the processor time
# t3: ValueError
# t2: ValueError
# control: harm
import resource

attempt(lambda: resource.setrlimit(resource.RLIMIT_CPU, (86400, 86400)))
