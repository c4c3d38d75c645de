# rule: none
# checks matrix and interest claims with qwed_new
from qwed_new.core import VerificationEngine

v = VerificationEngine()
det = v.verify_matrix_operation("determinant", {"A": [[1, 2], [3, 4]]}, -2)
print(det)
assert det["is_correct"]

ci = v.verify_compound_interest(principal=1000, rate=0.05, time=10, n=1, expected=1628.89)
print(ci["formula"], ci["calculated_amount"])
assert ci["status"] == "VERIFIED"

npv = v.verify_npv(0.1, [-1000, 500, 500, 500], 243.43)
assert npv["is_correct"], npv
manual = sum(c / 1.1**t for t, c in enumerate([-1000, 500, 500, 500]))
assert abs(manual - npv["calculated_npv"]) < 0.01

unit = v.verify_unit_conversion(1, "km", "m", 1000)
assert unit["is_correct"]
