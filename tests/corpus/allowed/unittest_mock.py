# rule: none
# uses Mock and patch.object on own classes
import unittest
from unittest.mock import Mock, MagicMock, patch, call

class Clock:
    def now(self):
        return 42

class Greeter:
    def __init__(self, clock, sink):
        self.clock, self.sink = clock, sink

    def greet(self, name):
        part = "morning" if self.clock.now() < 12 else "day"
        self.sink(f"Good {part}, {name}")

class GreeterTest(unittest.TestCase):
    def test_morning(self):
        sink = Mock()
        clock = Mock(spec=Clock)
        clock.now.return_value = 9
        Greeter(clock, sink).greet("Ada")
        sink.assert_called_once_with("Good morning, Ada")

    def test_patch(self):
        sink = MagicMock()
        with patch.object(Clock, "now", side_effect=[5, 15]):
            g = Greeter(Clock(), sink)
            g.greet("A")
            g.greet("B")
        self.assertEqual(sink.call_args_list, [call("Good morning, A"), call("Good day, B")])

runner = unittest.TextTestRunner(verbosity=0)
outcome = runner.run(unittest.defaultTestLoader.loadTestsFromTestCase(GreeterTest))
assert not outcome.failures and not outcome.errors
