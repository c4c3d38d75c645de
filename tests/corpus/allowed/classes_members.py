# rule: none
# asks for the members of its own classes, and formats with a formatter of its own
import inspect
import string

class Shape:
    "A shape."
    sides = 4
    label = "a shape"
    def area(self):
        return self.sides ** 2

for name, member in inspect.getmembers(Shape):
    if not name.startswith("_"):
        print(name, callable(member), inspect.isfunction(member), getattr(member, "__doc__", None))
for name, method in inspect.getmembers(Shape(), predicate=inspect.ismethod):
    print(name, method(), method.__name__)
for name, value in vars(Shape).items():
    print(name, isinstance(value, str))

class Money(string.Formatter):
    def format_field(self, value, spec):
        return f"{value:.2f} €" if spec == "money" else super().format_field(value, spec)

print(Money().format("{0.sides:money} {shape.sides!r:>5} {}", Shape(), shape=Shape()))
