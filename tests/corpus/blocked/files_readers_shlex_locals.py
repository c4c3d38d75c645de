# rule: files/readers
# effect: reads
import io, shlex
words = shlex.shlex(io.StringIO('include "secret.txt"'))
def change():
    source = "include"
    vars(words).update(locals())
change()
words.wordchars += "-"
print(list(words))
