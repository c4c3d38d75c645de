# rule: execution/exec
# effect: writes
import contextvars
contextvars.copy_context().run(exec, "open('canary', 'w').close()")
