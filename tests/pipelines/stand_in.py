#!/usr/bin/env python3
"""A stand-in for `qwed-mcp run --batch -` that breaks when it is told to: what the real program must not do, and a machine might.

A line's code is what it does: `ok TEXT` prints TEXT, `die SIGNAL` ends the program, `die-once FILE` does so where FILE is not there
yet, `die-with-parent` ends both, `garbage` answers what is no answer, `stop` stops the program, `silent` never answers, `deaf` ignores that it
is told to end, `complain BYTES` writes so much on standard error, `exit CODE TEXT` ends it with
TEXT on standard error.
"""

import json
import os
import pathlib
import signal
import sys

is_deaf = False
for number, text in enumerate(sys.stdin, 1):
    line = json.loads(text)
    what, _, rest = line["code"].strip().partition(" ")
    if what == "die" or (what == "die-once" and not os.path.exists(rest)):
        if what == "die-once":
            pathlib.Path(rest).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "die-with-parent":
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif what == "silent":
        continue
    elif what == "exit":
        code, _, said = rest.partition(" ")
        print(said, file=sys.stderr)
        sys.exit(int(code))
    elif what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        is_deaf = True
    elif what == "complain":
        print("x" * int(rest), file=sys.stderr, flush=True)
    elif what == "garbage":
        print("no answer", flush=True)
    answer = {"id": str(number), "status": "ok", "passed": True, "exit_code": 0, "stdout": rest, "stderr": "", "attempt": 1}
    print(json.dumps(answer), flush=True)

while is_deaf:
    signal.pause()
