# rule: files/readers
# effect: reads
import warnings
print(warnings.formatwarning("x", UserWarning, "secret.txt", 1))
