# rule: files/logging
# effect: writes
from logging.config import dictConfig
dictConfig({"version": 1, "formatters": {"f": {"()": "os.mknod", "path": "canary"}}})
