# rule: none
# compares with classes that must not be made: in patterns, and in a union
import sqlite3

def kind(x):
    match x:
        case sqlite3.Connection():
            return "connection"
        case sqlite3.Cursor() | sqlite3.Row():
            return "result"
    return "other"

print(kind(sqlite3.connect(":memory:")), kind(1))
print(isinstance(1, sqlite3.Connection | sqlite3.Cursor | None), isinstance(1, int | sqlite3.Connection))
