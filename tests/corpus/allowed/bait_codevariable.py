# rule: none
# checks country codes and error codes kept in variables named code
class AppError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

codes = {"DE": "Germany", "FR": "France", "JP": "Japan"}
for code, name in codes.items():
    assert len(code) == 2 and code.isupper()
    code_points = [ord(c) for c in code]
    flag = "".join(chr(0x1F1E6 + p - 65) for p in code_points)
    print(flag, code, name)

def lookup(code):
    if code not in codes:
        raise AppError(404, f"unknown code {code!r}")
    return codes[code]

assert lookup("FR") == "France"
try:
    lookup("XX")
except AppError as exc:
    code = exc.code
    print(code, exc)
    assert code == 404

code = "import os\nos.system('echo hi')"
assert code.count("\n") == 1 and code.split()[1] == "os"
byte_code = bytes(code, "ascii")
assert byte_code[:6] == b"import"
ean = "4006381333931"
check = (10 - sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(ean[:-1])) % 10) % 10
assert check == int(ean[-1])
