# rule: execution/eval
# effect: prints
try:
    import no_such_module as eval
except ImportError:
    pass
eval("print('PWN'+'ED')")
