# rule: internals/builtins
# effect: writes
(lambda: 0).__builtins__["open"]("canary", "w").close()
