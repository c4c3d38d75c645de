# rule: none
# loads a test case class, runs it into a string buffer and inspects the result
import io
import sys
import unittest
from fractions import Fraction

class FractionLaws(unittest.TestCase):
    values = [Fraction(a, b) for a in range(-3, 4) for b in (1, 2, 5)]

    def test_commutative(self):
        for a in self.values:
            for b in self.values:
                self.assertEqual(a + b, b + a)
                self.assertEqual(a * b, b * a)

    def test_inverse(self):
        for a in self.values:
            if a:
                self.assertEqual(a * (1 / a), 1)

    @unittest.skip("documented as not supported")
    def test_skipped(self):
        self.fail()

    @unittest.expectedFailure
    def test_float_equality(self):
        self.assertEqual(0.1 + 0.2, 0.3)

suite = unittest.TestLoader().loadTestsFromTestCase(FractionLaws)
buffer = io.StringIO()
result = unittest.TextTestRunner(stream=buffer, verbosity=2).run(suite)
print(buffer.getvalue())
print("run:", result.testsRun, "skipped:", len(result.skipped))
assert result.wasSuccessful() and len(result.expectedFailures) == 1
sys.exit(0 if result.wasSuccessful() else 1)
