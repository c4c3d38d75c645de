# rule: none
# checks an own data frame class with query, eval and apply methods
class Frame:
    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def rows(self):
        keys = list(self.columns)
        return [dict(zip(keys, vals)) for vals in zip(*self.columns.values())]

    def query(self, column, op, value):
        ops = {">": lambda a: a > value, "==": lambda a: a == value, "<": lambda a: a < value}
        keep = [r for r in self.rows() if ops[op](r[column])]
        return Frame(**{k: [r[k] for r in keep] for k in self.columns})

    def eval(self, name, fn):
        return Frame(**self.columns, **{name: [fn(r) for r in self.rows()]})

    def apply(self, fn):
        return [fn(r) for r in self.rows()]

df = Frame(item=["pen", "ink", "pad"], qty=[3, 1, 4], price=[2.0, 7.5, 1.25])
df = df.eval("total", lambda r: r["qty"] * r["price"])
print(df.columns["total"])
assert df.columns["total"] == [6.0, 7.5, 5.0]
assert len(df.query("qty", ">", 2)) == 2
assert df.query("item", "==", "ink").eval("tax", lambda r: r["total"] / 10).columns["tax"] == [0.75]
assert max(df.apply(lambda r: r["total"])) == 7.5
