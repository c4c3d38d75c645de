# Prints which of the packages that verification scripts use can be imported, as JSON. NAMES is put
# before this text: pairs of a module and the distribution that brings it (PyPI's name).
import importlib.util
import json
from importlib import metadata

found = {}
for module, distribution in NAMES:
    try:
        is_there = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        is_there = False
    version = None
    if is_there:
        try:
            version = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            version = "unknown version"
    found[distribution] = version
print(json.dumps(found))
