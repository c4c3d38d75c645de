# rule: deserialisation/others
# effect: writes
import pydantic
class M(pydantic.BaseModel):
    x: int = 1
M.parse_raw(b"cos\nsystem\n(S'touch canary'\ntR.", proto="pickle", allow_pickle=True)
