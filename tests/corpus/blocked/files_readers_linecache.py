# rule: files/readers
# effect: reads
from linecache import getline as g
print(g("secret.txt", 1))
