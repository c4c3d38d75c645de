# rule: internals/format-fields
# effect: prints
import logging
TOKEN = "".join(["PWN", "ED"])
def show(): pass
logging.basicConfig(format="{msg.__globals__[TOKEN]}", style="{", stream=logging.sys.stdout)
logging.warning(show)
