# coding: utf-7
# rule: encoding/declaration
# effect: writes
label = "+ACIAOw-open('canary', 'w').close()+ADsAIg-"
