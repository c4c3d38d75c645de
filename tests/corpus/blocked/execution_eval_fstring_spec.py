# rule: execution/eval
# effect: prints
pick = {"w": eval}
label = f"{1.5:{(pick['w']('print(str()+chr(80)+chr(87)+chr(78)+chr(69)+chr(68))') or 6)}.2f}"
