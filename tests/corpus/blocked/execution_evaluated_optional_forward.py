# rule: execution/evaluated-text
# effect: writes
import typing
class Row: pass
Row.__annotations__ = {"x": typing.Optional["open('canary', 'w')"]}
typing.get_type_hints(Row)
