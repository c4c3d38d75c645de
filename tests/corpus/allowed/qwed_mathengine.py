# rule: none
# checks math claims with the QWED verification engine
from qwed_new.core.verifier import VerificationEngine

engine = VerificationEngine()

checks = [
    ("2*(5+10)", engine.verify_math("2*(5+10)", 30)),
    ("2*(5+10) wrong", engine.verify_math("2*(5+10)", 31)),
    ("pythagoras", engine.verify_identity("sin(x)**2+cos(x)**2", "1")),
    ("d/dx x^3", engine.verify_derivative("x**3", "x", "3*x**2")),
    ("int 2x", engine.verify_integral("2*x", "x", "x**2")),
    ("lim sinx/x", engine.verify_limit("sin(x)/x", "x", "0", "1")),
    ("15% of 200", engine.verify_percentage(200, 15, 30)),
    ("mean", engine.verify_statistics([1, 2, 3, 4], "mean", 2.5)),
]
for name, result in checks:
    print(f"{name:16} {result['status']}")

verdicts = {name: res.get("is_correct", res.get("is_equivalent")) for name, res in checks}
assert verdicts["2*(5+10) wrong"] is False
assert all(ok for name, ok in verdicts.items() if "wrong" not in name)
