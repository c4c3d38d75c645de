# rule: internals/code-objects
# effect: reads
import inspect
def f(): pass
f.__code__ = f.__code__.replace(co_filename="secret.txt", co_firstlineno=1)
print(inspect.findsource(f))
