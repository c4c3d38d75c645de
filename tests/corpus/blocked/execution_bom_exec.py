# rule: execution/exec
# effect: writes
(lambda f=exec: f("open('canary', 'w').close()"))()
