# rule: execution/code-modules
# effect: writes
import pydoc
pydoc.locate("os.mknod")("canary")
