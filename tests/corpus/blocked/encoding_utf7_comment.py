# coding: utf-7
# rule: encoding/declaration
# effect: writes
# totals +AAo-open('canary', 'w').close()
x = 1
