# attack: ignore every signal that can be ignored and compute for 20 seconds
# t3: timed out | exit -9
# t2: timed out | exit -9
# control: none, the time limit of the server holds there too
import signal
import time

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)
end = time.monotonic() + 20
while time.monotonic() < end:
    pass
print("RESULT harm", flush=True)
