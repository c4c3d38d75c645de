import sqlglot
from qwed_finance import QueryGuard
from qwed_new.guards.sql_guard import SQLGuard

query = "SELECT name FROM users WHERE id = 5"
allowed_tables = None

result = SQLGuard().verify_query(query)
print(result["message"])
assert result["verified"]
if allowed_tables:
    # The guard does not compare schemas, so a name with a schema causes a KeyError.
    tables = sqlglot.parse_one(query).find_all(sqlglot.exp.Table)
    {False: "no schema"}[any(table.db for table in tables) or any("." in name for name in allowed_tables)]
    access = QueryGuard().verify_table_access(query, set(allowed_tables))
    print("tables:", access.tables_accessed)
    assert access.safe
