# rule: execution/exec
# effect: writes
from unittest.mock import Mock
Mock(side_effect=exec)("open('canary', 'w').close()")
