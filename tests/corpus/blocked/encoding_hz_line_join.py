# coding: hz
# rule: encoding/declaration
# effect: prints
# shadow ~
eval = len
eval("print('PWN'+'ED')")
