# rule: process/multiprocessing
# effect: writes
from multiprocessing import util
import os
util.spawnv_passfds(b"/bin/sh", [b"sh", b"-c", b": > canary"], ())
os.wait()
