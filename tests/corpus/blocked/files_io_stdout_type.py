# rule: files/io
# effect: writes
import sys
type(sys.stdout.buffer.raw)("canary", "w")
