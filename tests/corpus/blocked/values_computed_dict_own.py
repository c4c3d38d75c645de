# rule: values/computed-name
# effect: writes
import inspect
class A:
    def __init__(self):
        self.f = print
for _, member in A().__dict__.items():
    for name, found in inspect.getmembers(member):
        if name == "__self__":
            found.open("canary", "w")
