# rule: none
# checks an argument parser with explicit argument lists
import argparse
import contextlib
import io

def build():
    p = argparse.ArgumentParser(prog="loan", description="loan calculator")
    p.add_argument("principal", type=float)
    p.add_argument("--rate", type=float, default=5.0)
    p.add_argument("--years", type=int, choices=range(1, 41), metavar="N", default=30)
    p.add_argument("-v", "--verbose", action="count", default=0)
    return p

args = build().parse_args(["200000", "--rate", "6", "-vv"])
print(vars(args))
assert args.principal == 200000 and args.rate == 6 and args.verbose == 2 and args.years == 30

err = io.StringIO()
with contextlib.redirect_stderr(err):
    try:
        build().parse_args(["100", "--years", "99"])
    except SystemExit as e:
        assert e.code == 2
assert "invalid choice" in err.getvalue()

monthly = args.rate / 1200
pay = args.principal * monthly / (1 - (1 + monthly) ** (-12 * args.years))
print(f"monthly payment {pay:.2f}")
assert abs(pay - 1199.10) < 0.01
known, rest = build().parse_known_args(["5", "--unknown"])
assert rest == ["--unknown"]
