# rule: files/logging
# effect: connects
import logging, logging.handlers
h = logging.handlers.SMTPHandler(("127.0.0.1", 1), "a@b", ["c@d"], "x")
h.handleError = lambda record: print("connects")
h.handle(logging.makeLogRecord({}))
