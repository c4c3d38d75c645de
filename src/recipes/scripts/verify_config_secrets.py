import json

from qwed_sdk.guards.config_guard import ConfigGuard

config_json = '{"host": "db.example.com", "port": 5432}'

result = ConfigGuard().verify_config_safety(json.loads(config_json))
print(result["message"], result.get("violations", []))
assert result["verified"]
