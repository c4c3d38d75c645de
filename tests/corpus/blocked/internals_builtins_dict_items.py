# rule: values/computed-name
# effect: writes
f = [v for k, v in vars(__builtins__).items() if k == "open"]
f[0]("canary", "w").close()
