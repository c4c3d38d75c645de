# rule: none
# tests QWED SQL guards with destructive statements as data
from qwed_new.guards.sql_guard import SQLGuard
from qwed_new.core.sql_verifier import SQLVerifier
from qwed_finance import QueryGuard

guard = SQLGuard(allow_mutation=False)
queries = {
    "SELECT id FROM users": True,
    "DROP TABLE users": False,
    "UPDATE users SET admin = 1": False,
    "SELECT 1; DELETE FROM users": False,
    "SELECT pg_read_file('/etc/passwd')": False,
}
for query, want in queries.items():
    out = guard.verify_query(query)
    print(query, "->", out.get("risk", "OK"))
    assert out["verified"] is want

ddl = "CREATE TABLE users (id INT, name TEXT)"
sql = SQLVerifier()
assert sql.verify_sql("SELECT id FROM users", ddl).developer_fields["is_valid"]
assert not sql.verify_sql("DROP TABLE users", ddl).developer_fields["is_valid"]

finance = QueryGuard(allowed_tables={"trades"})
assert finance.verify_readonly_safety("SELECT price FROM trades").safe
assert not finance.verify_readonly_safety("TRUNCATE TABLE trades").safe
injected = "x' OR '1'='1"
assert not finance.verify_no_injection(f"SELECT a FROM trades WHERE n='{injected}'", injected).safe
