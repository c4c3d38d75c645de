# rule: files/open
# effect: writes
vars().__getitem__("__buil" "tins__").open("canary", "w").close()
