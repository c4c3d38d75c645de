# rule: values/computed-name
# effect: writes
base = getattr(int, "__ba" + "se__")
for c in getattr(base, "__sub%s__" % "classes")():
    if c.__name__ == "_Printer":
        getattr(c.__init__, "__glo" "bals__")["sys"].modules["os"].mknod("canary")
