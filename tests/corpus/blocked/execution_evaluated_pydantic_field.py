# rule: execution/evaluated-text
# effect: writes
from pydantic import BaseModel
class Row(BaseModel):
    width: "open('canary', 'w') or int"
