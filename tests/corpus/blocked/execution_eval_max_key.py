# rule: execution/eval
# effect: prints
max(["print('PWN'+'ED')"], key=eval)
