# rule: files/open
# effect: writes
[f.close() for f in map(open, ["canary"], "w")]
