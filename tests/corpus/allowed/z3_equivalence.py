# rule: none
# proves two implementations of abs, max and a bit trick equivalent
from z3 import BitVec, BitVecVal, If, prove, Solver, unsat, UDiv, URem, And, Implies, LShR

x = BitVec("x", 32)
y = BitVec("y", 32)

mask = x >> 31
abs_trick = (x + mask) ^ mask
abs_plain = If(x < 0, -x, x)
prove(abs_trick == abs_plain)

is_pow2 = And(x != 0, (x & (x - 1)) == 0)
enum = Solver()
enum.add(is_pow2, x == 48)
assert enum.check() == unsat

s = Solver()
s.add(LShR(x, 3) != UDiv(x, BitVecVal(8, 32)))
assert s.check() == unsat
s = Solver()
s.add((x & 7) != URem(x, BitVecVal(8, 32)))
assert s.check() == unsat

swap_a = x ^ y
swap_b = swap_a ^ y
swap_c = swap_a ^ swap_b
prove(And(swap_b == x, swap_c == y))
