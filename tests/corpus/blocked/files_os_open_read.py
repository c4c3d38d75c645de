# rule: files/os
# effect: reads
from os import open as start, read
print(read(start("secret.txt", 0), 99))
