# rule: none
# checks remove, unlink and replace on a doubly linked list
class Node:
    __slots__ = ("value", "prev", "next")

    def __init__(self, value):
        self.value, self.prev, self.next = value, None, None

    def unlink(self):
        self.prev.next, self.next.prev = self.next, self.prev
        self.prev = self.next = None

    def link(self, after):
        self.prev, self.next = after, after.next
        after.next.prev = after.next = self

class Ring:
    def __init__(self, values=()):
        self.head = Node(None)
        self.head.prev = self.head.next = self.head
        for v in values:
            Node(v).link(self.head.prev)

    def walk(self):
        node = self.head.next
        while node is not self.head:
            yield node
            node = node.next

    def remove(self, value):
        node = next(n for n in self.walk() if n.value == value)
        node.unlink()
        return node

    def replace(self, old, new):
        at = self.remove(old)
        Node(new).link(self.head.prev)
        return at

ring = Ring([1, 2, 3, 4])
ring.remove(2)
ring.replace(3, 30)
values = [n.value for n in ring.walk()]
print(values)
assert values == [1, 4, 30]
items = [5, 6, 7]
items.remove(6)
assert items == [5, 7]
