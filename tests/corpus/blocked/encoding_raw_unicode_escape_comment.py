# coding: raw_unicode_escape
# rule: encoding/declaration
# effect: writes
# totals \u000aopen('canary', 'w').close()
x = 1
