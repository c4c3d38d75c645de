# rule: process/subprocess
# effect: writes
import _posixsubprocess, os
_posixsubprocess.fork_exec([b"sh", b"-c", b": > canary"], [b"/bin/sh"], True, (), None, None,
    -1, -1, -1, -1, -1, -1, *os.pipe(), False, False, 0, None, None, None, -1, None, False)
os.wait()
