# rule: none
# checks a stack machine with opcodes named CALL, EXEC, LOAD, OPEN and KILL
from enum import Enum, IntEnum, auto

class Op(IntEnum):
    LOAD = auto()
    CALL = auto()
    EXEC = auto()
    JUMP = auto()
    KILL = auto()

class Event(Enum):
    open = "o"
    exec = "e"
    system = "s"

FUNCS = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}

class Machine:
    def __init__(self):
        self.stack, self.pc, self.steps = [], 0, 0

    def load(self, v):
        self.stack.append(v)

    def call(self, name):
        b, a = self.stack.pop(), self.stack.pop()
        self.stack.append(FUNCS[name](a, b))

    def exec(self, code):
        self.pc = 0
        while self.pc < len(code):
            op, arg = code[self.pc]
            self.pc += 1
            self.steps += 1
            match op:
                case Op.LOAD: self.load(arg)
                case Op.CALL: self.call(arg)
                case Op.EXEC: self.stack.append(Machine().exec(arg))
                case Op.KILL: break
        return self.stack[-1]

code = [(Op.LOAD, 2), (Op.EXEC, [(Op.LOAD, 3), (Op.LOAD, 4), (Op.CALL, "mul")]), (Op.CALL, "add"), (Op.KILL, None), (Op.LOAD, 0)]
machine = Machine()
assert machine.exec(code) == 14 and machine.steps == 4
assert Event("e") is Event.exec and Event.open.value == "o" and Event["system"].name == "system"
print([e.name for e in Event], Op.CALL.name, int(Op.KILL))
