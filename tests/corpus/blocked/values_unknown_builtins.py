# rule: values/computed-name
# effect: prints
import builtins
getattr(builtins, "".join(sorted("eval", key="eval".index)))("print('PWN'+'ED')")
