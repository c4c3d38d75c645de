# rule: imports/importlib
# effect: writes
import pkgutil
pkgutil.resolve_name("os:mknod")("canary")
