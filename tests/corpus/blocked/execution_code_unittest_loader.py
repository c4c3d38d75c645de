# rule: execution/test-discovery
# effect: writes
import io, sys, unittest
sys.stdin = io.StringIO("open('canary', 'w').close()\n")
try:
    unittest.defaultTestLoader.loadTestsFromName("code.interact")
except TypeError:
    pass
