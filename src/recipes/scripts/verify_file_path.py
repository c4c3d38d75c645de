from qwed_sdk.guards.system_guard import SystemGuard

filepath = "/tmp/report.txt"
allowed_paths = ["/tmp"]

result = SystemGuard(allowed_paths=allowed_paths).verify_file_access(filepath)
print(result["message"])
assert result["verified"]
