# rule: files/open
# effect: writes
# totalsopen('canary', 'w').close()x = 1
