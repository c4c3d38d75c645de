# rule: values/module
# effect: writes
import os
object.__getattribute__(os, "system")(": > canary")
