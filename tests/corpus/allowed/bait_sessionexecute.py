# rule: none
# checks a fake database session with execute, commit, connect and get
from contextlib import contextmanager

class Result(list):
    def scalar(self):
        return self[0][0]

class Session:
    def __init__(self, engine):
        self.engine, self.pending = engine, []

    def execute(self, statement, **params):
        op, table, *rest = statement.split()
        rows = self.engine.tables[table]
        if op == "count":
            return Result([(len(rows),)])
        if op == "add":
            self.pending.append((table, params))
            return Result()
        return Result((r[rest[0]],) for r in rows)

    def commit(self):
        for table, row in self.pending:
            self.engine.tables[table].append(row)
        self.pending.clear()

    def rollback(self):
        self.pending.clear()

class Engine:
    def __init__(self):
        self.tables = {"user": []}

    @contextmanager
    def connect(self):
        session = Session(self)
        try:
            yield session
            session.commit()
        except Exception:
            session.rollback()
            raise

engine = Engine()
with engine.connect() as session:
    session.execute("add user", name="ann")
    session.execute("add user", name="bob")
try:
    with engine.connect() as session:
        session.execute("add user", name="eve")
        raise RuntimeError("abort")
except RuntimeError:
    pass
with engine.connect() as conn:
    assert conn.execute("count user").scalar() == 2
    print([row[0] for row in conn.execute("get user name")])
