# rule: imports/importlib
# effect: writes
import random
from unittest.mock import patch
patcher = patch.object(random, "_os")
patcher.start()
patcher.temp_original.system("touch canary")
