# rule: none
# checks string.Template, format specs and f-string features
from string import Template, Formatter
from datetime import date

t = Template("Dear $name, you owe $$${amount} since ${when}.")
msg = t.substitute(name="Ada", amount=f"{1234.5:,.2f}", when=date(2024, 5, 1))
print(msg)
assert msg == "Dear Ada, you owe $1,234.50 since 2024-05-01."
assert t.safe_substitute(name="Bob").count("$") == 3

width, prec, value = 12, 3, 3.14159265
assert f"{value:>{width}.{prec}f}" == "       3.142"
assert f"{255:#x} {255:08b} {255:o} {1e6:e}" == "0xff 11111111 377 1.000000e+06"
assert f"{'mid':*^9}" == "***mid***"
assert f"{value=:.2f}" == "value=3.14"
assert f"{'quote'!r}" == "'quote'"
assert f"{0.1234:.1%}" == "12.3%"

fields = [name for _, name, _, _ in Formatter().parse("{a} {b.c} {0[1]}") if name]
print(fields)
assert fields == ["a", "b.c", "0[1]"]
print("{:<8}|{:^8}|{:>8}".format("l", "c", "r"))
print("%05.1f %s %d%%" % (2.25, "x", 50))
