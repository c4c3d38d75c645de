# rule: none
# verifies the answer to a knights-and-knaves puzzle by enumeration and with z3
from itertools import product

def main():
    # A: "B is a knave."  B: "A and C are of the same type."  Claim: C is a knave.
    solutions = []
    for a, b, c in product([True, False], repeat=3):
        if a == (not b) and b == (a == c):
            solutions.append({"A": a, "B": b, "C": c})
    for s in solutions:
        print({k: "knight" if v else "knave" for k, v in s.items()})
    assert solutions and all(not s["C"] for s in solutions)

    try:
        from z3 import Bools, Solver, Not, unsat
    except ImportError:
        print("z3 not available")
        return
    A, B, C = Bools("A B C")
    s = Solver()
    s.add(A == Not(B), B == (A == C), C)
    verdict = s.check()
    print("C can be a knight:", verdict)
    assert verdict == unsat
    print("CLAIM VERIFIED: C is a knave")

if __name__ == "__main__":
    main()
