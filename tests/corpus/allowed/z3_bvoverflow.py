# rule: none
# searches for an overflow in a 32-bit average and checks the fix
from z3 import BitVec, Solver, ULT, UGT, LShR, sat, unsat, BVAddNoOverflow, Not, BitVecVal, ZeroExt, Extract

a, b = BitVec("a", 32), BitVec("b", 32)

naive = (a + b) >> 1
s = Solver()
s.add(a > 0, b > 0, naive < 0)
assert s.check() == sat
m = s.model()
print("overflow witness:", m[a], m[b], "->", m.eval(naive))

safe = (a & b) + ((a ^ b) >> 1)
wide = ZeroExt(32, a) + ZeroExt(32, b)
exact = Extract(31, 0, LShR(wide, 1))

s = Solver()
s.add(a >= 0, b >= 0)
s.add(safe != exact)
r = s.check()
print("fixed version differs from exact:", r)
assert r == unsat

s = Solver()
s.add(Not(BVAddNoOverflow(a, b, True)), ULT(a, BitVecVal(10, 32)), ULT(b, BitVecVal(10, 32)))
assert s.check() == unsat
