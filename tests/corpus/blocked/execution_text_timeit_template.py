# rule: execution/code-text
# effect: writes
import timeit
timeit.template = "def inner(_it, _timer):\n    open('canary', 'w').close()\n    return 0"
timeit.Timer().timeit(1)
