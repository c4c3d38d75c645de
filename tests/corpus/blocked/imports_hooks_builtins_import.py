# rule: execution/import-function
# effect: writes
import builtins
old = builtins.__import__
builtins.__import__ = lambda name, *a: old("os") if name == "maths" else old(name, *a)
import maths
maths.mknod("canary")
