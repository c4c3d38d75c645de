# rule: imports/importlib
# effect: writes
from unittest.mock import patch
patch("os.mknod").getter().mknod("canary")
