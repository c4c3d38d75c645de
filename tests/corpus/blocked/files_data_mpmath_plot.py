# rule: files/data
# effect: prints
import os, mpmath
mpmath.plot(lambda x: x, [0, 1], file="plot.png")
if os.path.exists("plot.png"):
    print("PWNED")
