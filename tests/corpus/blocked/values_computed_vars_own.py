# rule: values/computed-name
# effect: writes
import inspect
class A:
    f = print
for member in vars(A).values():
    for name, found in inspect.getmembers(member):
        if name == "__self__" and hasattr(found, "open"):
            found.open("canary", "w")
