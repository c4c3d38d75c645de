# rule: files/data
# effect: prints
import matplotlib.pyplot as plt
plt.style.use("./secret.txt")
print("PWNED")
