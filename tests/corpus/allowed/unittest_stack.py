# rule: none
# runs a small unittest suite for a stack
import unittest

class Stack:
    def __init__(self):
        self._items = []

    def push(self, v):
        self._items.append(v)

    def pop(self):
        if not self._items:
            raise IndexError("pop from empty stack")
        return self._items.pop()

    def __len__(self):
        return len(self._items)

class StackTest(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()

    def test_lifo(self):
        for v in range(3):
            self.stack.push(v)
        self.assertEqual([self.stack.pop() for _ in range(3)], [2, 1, 0])

    def test_empty(self):
        with self.assertRaisesRegex(IndexError, "empty"):
            self.stack.pop()

    def test_sizes(self):
        for n in (0, 1, 5):
            with self.subTest(n=n):
                s = Stack()
                for _ in range(n):
                    s.push(None)
                self.assertEqual(len(s), n)

if __name__ == "__main__":
    result = unittest.main(argv=["check"], exit=False, verbosity=2).result
    assert result.wasSuccessful()
