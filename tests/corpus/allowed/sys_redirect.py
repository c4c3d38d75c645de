# rule: none
# captures printed output with redirect_stdout and by replacing sys.stdout
import io
import sys
from contextlib import redirect_stdout, suppress

def report(n):
    for i in range(1, n + 1):
        print("Fizz" * (i % 3 == 0) + "Buzz" * (i % 5 == 0) or i)

buf = io.StringIO()
with redirect_stdout(buf):
    report(15)
lines = buf.getvalue().split()
assert lines[2] == "Fizz" and lines[4] == "Buzz" and lines[14] == "FizzBuzz"

saved = sys.stdout
sys.stdout = capture = io.StringIO()
try:
    print("hidden", end="")
finally:
    sys.stdout = saved
assert capture.getvalue() == "hidden"

with suppress(ZeroDivisionError):
    1 / 0
sys.stdout.write("captured " + str(len(lines)) + " lines\n")
print("to stderr", file=sys.stderr)
