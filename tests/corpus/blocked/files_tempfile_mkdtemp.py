# rule: files/tempfile
# effect: writes
from tempfile import mkdtemp, _RandomNameSequence
_RandomNameSequence.__next__ = lambda self: "ry"
mkdtemp("", "cana", ".")
