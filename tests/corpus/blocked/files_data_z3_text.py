# rule: files/data
# effect: writes
def name(x): return bytes.fromhex(x).decode()
import z3
z3.Solver().from_string(name("287365742d6f7074696f6e203a726567756c61722d6f75747075742d6368616e6e656c202263616e6172792229286563686f202268692229"))
