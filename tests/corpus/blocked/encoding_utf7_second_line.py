# rule: encoding/declaration
# coding: utf-7
# effect: writes
x = 1  # +AAo-open('canary', 'w').close()
