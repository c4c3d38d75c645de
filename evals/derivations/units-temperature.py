"""Computes in kelvins, and in degrees Rankine."""

from fractions import Fraction

claimed = "3.2"


def kelvin(fahrenheit):
    return (fahrenheit - 32) * Fraction(5, 9) + Fraction("273.15")


in_kelvin = kelvin(29) / kelvin(14) - 1
in_rankine = Fraction(15) / (14 + Fraction("459.67"))
print(float(in_kelvin), float(in_rankine))
assert in_kelvin == in_rankine
assert f"{float(100 * in_kelvin):.1f}" == claimed
