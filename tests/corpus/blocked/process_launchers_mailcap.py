# rule: process/launchers
# effect: writes
# needs: python 3.11
import mailcap
caps = {"text/x": [{"view": "cat", "test": "touch canary"}]}
mailcap.findmatch(caps, "text/x")
