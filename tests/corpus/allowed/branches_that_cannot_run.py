# rule: none
# has branches for a contest's machine and for Python 2, which cannot run
import sys

LOCAL = False
if LOCAL:
    sys.stdin = open("input.txt")
if sys.version_info[0] < 3:
    import cPickle
    read = sys.stdin.detach
else:
    read = sys.stdin.readline
while False:
    path.write_text("x")
print(sum(range(10)))
