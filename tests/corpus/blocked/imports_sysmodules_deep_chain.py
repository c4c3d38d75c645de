# rule: process/os-system
# effect: writes
import unittest.mock
unittest.mock.inspect.importlib.sys.modules["os"].system(": > canary")
