# rule: files/shutil
# effect: writes
import json
import os.path
json.__path__.append(os.path.dirname(os.__file__))
from json import shutil as codec
codec.copy("secret.txt", "canary")
