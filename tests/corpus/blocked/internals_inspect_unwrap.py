# rule: execution/eval
# effect: prints
import inspect
def safe(text): return 0
safe.__wrapped__ = eval
inspect.unwrap(safe)("print('PWN'+'ED')")
