# rule: imports/importlib
# effect: writes
from unittest import mock
mock.patch.object(print, "__self__").get_original()[0].exec("open('canary', 'w').close()")
