# rule: files/logging
# effect: writes
from logging import basicConfig as setup
setup(**{"file" + "name": "canary"})
