# rule: values/computed-name
# effect: writes
import os, codecs
getattr(os, codecs.decode("zxabq", "rot13"))("canary")
