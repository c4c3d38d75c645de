# attack: raise the limit of the number of open files
# t3: ValueError
# t2: ValueError
# control: harm
import resource

attempt(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)))
