# rule: execution/eval
# effect: writes
import re
re.sub(r".+", lambda m, f=eval: str(f(m[0])), "open('canary', 'w').close()")
