# rule: files/data
# effect: reads
import pandas as pd
print(*pd.read_csv("secret.txt", header=None, sep="\t").values[0])
