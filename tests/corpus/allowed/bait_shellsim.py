# rule: none
# simulates a toy shell over a dictionary file system
class FakeShell:
    def __init__(self):
        self.files = {"/readme": "hello world", "/data": "3\n1\n2"}
        self.exit_code = 0

    def run(self, line):
        name, *args = line.split()
        method = getattr(self, "cmd_" + name, None)
        if method is None:
            self.exit_code = 127
            return f"{name}: command not found"
        self.exit_code = 0
        return method(*args)

    def popen(self, line):
        return iter(self.run(line).splitlines())

    def system(self, line):
        self.run(line)
        return self.exit_code

    def cmd_cat(self, path):
        return self.files[path]

    def cmd_rm(self, path):
        return self.files.pop(path) and ""

    def cmd_sort(self, path):
        return "\n".join(sorted(self.files[path].split()))

sh = FakeShell()
assert sh.run("cat /readme") == "hello world"
assert list(sh.popen("sort /data")) == ["1", "2", "3"]
assert sh.system("rm /data") == 0 and "/data" not in sh.files
assert sh.system("curl http://example.org") == 127
for cmd in ("cat /readme", "sudo reboot"):
    print("$", cmd, "->", sh.run(cmd))
