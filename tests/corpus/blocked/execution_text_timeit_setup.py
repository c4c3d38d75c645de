# rule: execution/code-text
# effect: writes
import timeit
timeit.repeat("pass", "open('canary', 'w').close()", number=1, repeat=1)
