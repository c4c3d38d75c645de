# rule: process/launchers
# effect: writes
import posix
posix.system(": > canary")
