# rule: files/logging
# effect: writes
import logging.config
logging.config.dictConfig({"version": 1, "handlers": {"h": {"class": "logging.FileHandler", "filename": "canary"}},
    "root": {"handlers": ["h"]}})
