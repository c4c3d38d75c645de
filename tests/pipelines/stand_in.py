#!/usr/bin/env python3
"""A stand-in for `qwed-mcp run --batch -` that simulates faults.

The real program must not behave like this, but a faulty machine might.

The code of a line is a command. `ok TEXT` prints TEXT. `die` kills the program. `die-once FILE` kills the program
unless FILE exists. `die-with-parent` kills the program and its parent. `garbage` sends a line that is not an
answer. `stop` stops the program. `silent` never answers. `deaf` makes the program ignore SIGTERM. `complain BYTES`
writes this many bytes to standard error. `exit CODE TEXT` exits with TEXT on standard error.
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
