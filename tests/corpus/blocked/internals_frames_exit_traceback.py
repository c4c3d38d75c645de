# rule: internals/frames
# effect: writes
class Ctx:
    def __enter__(self): pass
    def __exit__(self, t, v, tb):
        tb.tb_frame.f_builtins["open"]("canary", "w").close()
        return True
with Ctx(): 1 / 0
