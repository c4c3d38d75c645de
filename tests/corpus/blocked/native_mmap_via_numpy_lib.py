# rule: files/data
# effect: reads
import numpy as np
print(bytes(np._core.memmap("secret.txt", mode="r")))
