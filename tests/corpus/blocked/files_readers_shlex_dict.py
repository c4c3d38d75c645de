# rule: files/readers
# effect: reads
import io, shlex
words = shlex.shlex(io.StringIO('include "secret.txt"'))
words.__dict__.update(dict(source="include"))
words.wordchars += "-"
print(list(words))
