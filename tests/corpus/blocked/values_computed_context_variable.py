# rule: values/computed-name
# effect: writes
def name(x): return bytes.fromhex(x).decode()
import contextvars
variable = contextvars.ContextVar("v")
variable.set(print)
getattr(variable.get(), name("5f5f73656c665f5f")).exec("open('canary', 'w').close()")
