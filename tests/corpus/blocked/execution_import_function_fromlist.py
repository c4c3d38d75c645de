# rule: execution/import-function
# effect: writes
get = {"i": __import__}["i"]
get("concurrent.futures.process", fromlist=["os"]).os.mkdir("canary")
