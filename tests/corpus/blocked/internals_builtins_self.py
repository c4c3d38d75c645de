# rule: internals/builtins
# effect: writes
len.__self__.exec("open('canary', 'w').close()")
