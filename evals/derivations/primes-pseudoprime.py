"""Runs the test for each base, and factors the number in two ways."""

from sympy import factorint

claimed = "composite, passes 2, 3, 5, 7"

number = 3_215_031_751
odd, twos = number - 1, 0
while odd % 2 == 0:
    odd, twos = odd // 2, twos + 1


def passes(base):
    power = pow(base, odd, number)
    return power == 1 or any(pow(base, odd << step, number) == number - 1 for step in range(twos))


divisor = next((n for n in range(2, int(number**0.5) + 1) if number % n == 0), None)
print(factorint(number), divisor)
assert min(factorint(number)) == divisor
kind = "prime" if divisor is None else "composite"
found = f"{kind}, passes {', '.join(str(base) for base in (2, 3, 5, 7) if passes(base))}"
assert found == claimed
