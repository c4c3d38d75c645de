# attack: raise the limit of the message queue size
# t3: ValueError
# t2: ValueError
# control: harm
import resource

attempt(lambda: resource.setrlimit(resource.RLIMIT_MSGQUEUE, (800000, 800000)))
