# rule: internals/builtins
# effect: prints
getattr(getattr(sum, "__se" + "lf__"), "ev" + "al")("print('PWN'+'ED')")
