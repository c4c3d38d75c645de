# rule: execution/code-modules
# effect: writes
import code
lines = iter(["open('canary', 'w').close()", "raise SystemExit"])
code.interact(readfunc=lambda prompt: next(lines))
