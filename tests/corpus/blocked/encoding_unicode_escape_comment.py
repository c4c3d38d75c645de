# coding: unicode_escape
# rule: encoding/declaration
# effect: writes
# totals \nopen('canary', 'w').close()
x = 1
