# rule: files/archives
# effect: reads
from tarfile import bltn_open as read
print(read("secret.txt").read())
