from qwed_sdk.guards.system_guard import SystemGuard

command = "ls -la"

result = SystemGuard().verify_shell_command(command)
print(result["message"])
assert result["verified"]
