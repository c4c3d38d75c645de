# rule: execution/eval
# effect: prints
class Meta(type):
    def __prepare__(name, bases):
        return {"calc": eval}

class Child(metaclass=Meta):
    calc("print('PWN'+'ED')")
