# rule: process/os
# effect: writes
from os import posix_spawn as go, waitpid, environ
waitpid(go("/bin/sh", ["sh", "-c", ": > canary"], environ), 0)
