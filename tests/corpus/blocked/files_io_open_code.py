# rule: files/io
# effect: reads
from io import open_code as show
print(show("secret.txt").read())
