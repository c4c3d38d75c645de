# rule: execution/exec
# effect: writes
"""open('canary', 'w').close()"""
for f in {exec: 1}:
    f(__doc__)
