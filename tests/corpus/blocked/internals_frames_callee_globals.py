# rule: internals/frames
# effect: writes
import random
try:
    random.shuffle(5)
except TypeError as e:
    e.__traceback__.tb_next.tb_frame.f_globals["_os"].mknod("canary")
