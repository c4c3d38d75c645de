# rule: process/os-system
# effect: writes
class Tool:
    from os import system

Tool.system(": > canary")
