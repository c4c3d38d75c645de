# rule: files/open
# effect: writes
__builtins__.open("canary", "w").close()
