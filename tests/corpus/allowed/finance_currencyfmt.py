# rule: none
# formats and parses money strings and checks round trips
import re
from decimal import Decimal, InvalidOperation, localcontext, ROUND_HALF_EVEN

def fmt(value: Decimal, symbol: str = "$") -> str:
    sign = "-" if value < 0 else ""
    return f"{sign}{symbol}{abs(value):,.2f}"

def parse(text: str) -> Decimal:
    cleaned = re.sub(r"[^\d.\-]", "", text)
    try:
        return Decimal(cleaned)
    except InvalidOperation as exc:
        raise ValueError(f"not money: {text!r}") from exc

for raw in ["0", "1234.5", "-99999.99", "1000000"]:
    v = Decimal(raw)
    assert parse(fmt(v)) == v
    print(fmt(v))

with localcontext() as ctx:
    ctx.rounding = ROUND_HALF_EVEN
    ctx.prec = 6
    assert round(Decimal("2.675"), 2) == Decimal("2.68")
    print(Decimal(1) / Decimal(7))

try:
    parse("free!")
except ValueError as e:
    print("error:", e, "| cause:", type(e.__cause__).__name__)
