# rule: imports/importlib
# effect: writes
import json
from unittest.mock import Mock
Mock(wraps=json).codecs._mock_wraps.open("canary", "w").close()
