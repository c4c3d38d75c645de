# rule: execution/import-function
# effect: writes
for m in map(__import__, ["os"]):
    m.mkfifo("canary")
