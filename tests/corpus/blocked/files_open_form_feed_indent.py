# rule: files/open
# effect: writes
if 0:
    pass
   for f in [open]: f('canary', 'w').close()
