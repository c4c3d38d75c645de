# rule: files/open
# effect: writes
save = open
save("canary", "w").close()
