# rule: internals/frames
# effect: writes
g = (x for x in [1])
g.gi_frame.f_builtins["exec"]("open('canary', 'w').close()")
