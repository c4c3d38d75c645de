# rule: execution/eval
# effect: prints
𝐞𝐯𝐚𝐥("print('PWN'+'ED')")
