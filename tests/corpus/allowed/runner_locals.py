# rule: none
# formats a report with locals() and looks names up in globals()
principal = 1000
rate = 5

def report():
    years = 3
    total = principal * (1 + rate / 100) ** years
    return "{years} years give {total:.2f}".format(**locals())

print(report())
assert report() == "3 years give 1157.63"

def op_add(a, b): return a + b
def op_sub(a, b): return a - b
def op_mul(a, b): return a * b

def apply(name, a, b):
    fn = globals().get("op_" + name)
    if fn is None:
        raise KeyError(name)
    return fn(a, b)

assert [apply(n, 6, 3) for n in ("add", "sub", "mul")] == [9, 3, 18]
assert globals()["rate"] == 5 and "principal" in globals()
try:
    apply("div", 1, 2)
except KeyError as e:
    print("unknown operation", e)

class Config:
    debug = False
    level = 3

settings = {k: v for k, v in vars(Config).items() if not k.startswith("_")}
print(settings, sorted(set(dir(Config)) - set(dir(object)))[:3])
assert settings == {"debug": False, "level": 3}
