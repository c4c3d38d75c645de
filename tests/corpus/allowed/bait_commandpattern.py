# rule: none
# checks an undo stack with execute, undo and call
from abc import ABC, abstractmethod

class Command(ABC):
    @abstractmethod
    def execute(self): ...
    @abstractmethod
    def undo(self): ...

class Insert(Command):
    def __init__(self, doc, pos, text):
        self.doc, self.pos, self.text = doc, pos, text

    def execute(self):
        d = self.doc
        d.text = d.text[:self.pos] + self.text + d.text[self.pos:]

    def undo(self):
        d = self.doc
        d.text = d.text[:self.pos] + d.text[self.pos + len(self.text):]

class Replace(Command):
    def __init__(self, doc, old, new):
        self.doc, self.old, self.new, self.before = doc, old, new, None

    def execute(self):
        self.before = self.doc.text
        self.doc.text = self.doc.text.replace(self.old, self.new)

    def undo(self):
        self.doc.text = self.before

class Document:
    def __init__(self):
        self.text, self.done = "", []

    def run(self, *commands):
        for command in commands:
            command.execute()
            self.done.append(command)
        return self

    def undo(self):
        self.done.pop().undo()

doc = Document()
doc.run(Insert(doc, 0, "hello world"), Insert(doc, 5, ","), Replace(doc, "world", "there"))
assert doc.text == "hello, there"
doc.undo()
doc.undo()
print(doc.text)
assert doc.text == "hello world"
