# rule: values/computed-name
# effect: writes
import inspect
class A:
    f = print
member = getattr(A, bytes([102]).decode())
for name, found in inspect.getmembers(member):
    if name == "__self__":
        found.open("canary", "w")
