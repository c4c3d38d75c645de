# rule: files/databases
# effect: writes
def name(x): return bytes.fromhex(x).decode()
import sqlalchemy as sa
with sa.create_engine("sqlite://").connect() as con:
    con.exec_driver_sql(name("617474616368202763616e617279272061732078"))
    con.exec_driver_sql("create table x.t(a)")
    con.commit()
