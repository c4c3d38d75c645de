# rule: deserialisation/others
# effect: writes
from sqlalchemy import PickleType, create_engine
p = PickleType().result_processor(create_engine("sqlite://").dialect, None)
p(b"cposix\nmknod\n(Vcanary\ntR.")
