# rule: files/io
# effect: writes
import json
from unittest.mock import MagicMock
held = MagicMock(wraps=json).codecs
held.open("canary", "w")
