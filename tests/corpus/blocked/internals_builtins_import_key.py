# rule: execution/import-function
# effect: writes
__builtins__.__dict__["__imp" + "ort__"]("os").mknod("canary")
