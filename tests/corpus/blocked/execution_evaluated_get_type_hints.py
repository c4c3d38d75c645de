# rule: execution/evaluated-text
# effect: writes
import typing
def area(w: "open('canary', 'w')"): return w
typing.get_type_hints(area)
