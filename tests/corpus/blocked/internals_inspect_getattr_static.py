# rule: internals/inspection
# effect: writes
import inspect, os
inspect.getattr_static(os, "mknod")("canary")
