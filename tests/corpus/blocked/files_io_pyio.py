# rule: files/io
# effect: reads
import _pyio as buf
print(buf.open("secret.txt").read())
