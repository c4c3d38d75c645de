# rule: none
# checks logging levels and formatting with a stream handler
import io
import logging
import sys

stream = io.StringIO()
log = logging.getLogger("check.money")
log.setLevel(logging.DEBUG)
log.propagate = False
handler = logging.StreamHandler(stream)
handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
log.addHandler(handler)

def divide(a, b):
    log.debug("divide %s by %s", a, b)
    try:
        return a / b
    except ZeroDivisionError:
        log.exception("cannot divide")
        return None

assert divide(1, 2) == 0.5
assert divide(1, 0) is None
text = stream.getvalue()
print(text)
assert text.count("DEBUG:check.money") == 2
assert "ZeroDivisionError" in text

logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
logging.info("all checks passed")
logging.getLogger().debug("not shown")
