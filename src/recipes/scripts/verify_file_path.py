from qwed_sdk.guards.system_guard import SystemGuard

filepath = "/tmp/report.txt"
allowed_paths = ["/tmp"]

result = SystemGuard(allowed_paths=allowed_paths).verify_file_access(filepath)
print(result["message"])
assert result["verified"]
# Check the folders too, because the guard only compares the beginnings of paths. For /tmp, it also permits /tmp-other.
assert ".." not in filepath.split("/")
assert any(f"{filepath}/".startswith(path.rstrip("/") + "/") for path in allowed_paths)
