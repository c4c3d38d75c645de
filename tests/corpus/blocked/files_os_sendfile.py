# rule: files/os
# effect: reads
import os
os.sendfile(1, os.open("secret.txt", os.O_RDONLY), 0, 200)
