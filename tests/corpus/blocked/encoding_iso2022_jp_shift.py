# coding: iso2022_jp
# rule: encoding/declaration
# effect: writes
x = '：'; open('canary', 'w').close() #'
