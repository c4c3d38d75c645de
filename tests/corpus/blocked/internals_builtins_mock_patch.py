# rule: execution/eval
# effect: prints
from unittest.mock import patch
with patch("builtins.len", eval):
    len("print('PWN'+'ED')")
