# rule: imports/importlib
# effect: writes
from pydantic import TypeAdapter, ImportString
TypeAdapter(ImportString).validate_python("os.mknod")("canary")
