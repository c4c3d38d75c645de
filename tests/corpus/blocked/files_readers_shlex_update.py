# rule: files/readers
# effect: reads
import io, shlex
words = shlex.shlex(io.StringIO('include "secret.txt"'))
vars(words).update(source="include")
words.wordchars += "-"
print(list(words))
