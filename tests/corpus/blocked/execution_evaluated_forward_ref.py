# rule: execution/evaluated-text
# effect: writes
from typing import ForwardRef
ForwardRef("open('canary', 'w')")._evaluate({}, {}, frozenset())
