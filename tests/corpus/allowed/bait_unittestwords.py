# rule: none
# runs unit tests of an own command filter with dangerous strings
import re
import sys
import unittest

DENY = re.compile(r"\b(rm\s+-rf|sudo|mkfs|shutdown|eval|os\.system|subprocess)\b")

class CommandFilter:
    def __init__(self, allow=("ls", "cat", "echo")):
        self.allow = set(allow)

    def run(self, command):
        if DENY.search(command):
            return "denied"
        return "ok" if command.split()[:1] and command.split()[0] in self.allow else "unknown"

class CommandFilterTest(unittest.TestCase):
    def setUp(self):
        self.filter = CommandFilter()

    def test_denied(self):
        for command in ("rm -rf /", "sudo ls", "echo $(shutdown now)", "python -c 'os.system(1)'",
                        "python -c 'import subprocess'", "eval $(cat x)"):
            with self.subTest(command):
                self.assertEqual(self.filter.run(command), "denied")

    def test_allowed(self):
        self.assertEqual(self.filter.run("ls -la"), "ok")
        self.assertEqual(self.filter.run("echo evaluation"), "ok")

    def test_unknown(self):
        self.assertEqual(self.filter.run("curl http://x"), "unknown")
        self.assertEqual(self.filter.run(""), "unknown")

if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    sys.exit(not program.result.wasSuccessful())
