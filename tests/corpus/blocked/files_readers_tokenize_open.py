# rule: files/io
# effect: reads
import tokenize
print(tokenize.open("secret.txt").read())
