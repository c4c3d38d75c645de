# rule: files/readers
# effect: reads
import io, shlex
words = shlex.shlex(io.StringIO('include "secret.txt"'))
for name in "source other".split():
    setattr(words, name, "include")
words.wordchars += "-"
print(list(words))
