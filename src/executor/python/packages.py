# Prints, as JSON, which packages for verification scripts can be imported. The server inserts NAMES before this text:
# pairs of a module and its distribution on PyPI. The distribution is None if this script must find it.
import importlib.util
import json
from importlib import metadata


def distribution_of(module):
    try:
        return metadata.packages_distributions()[module][0]
    except (AttributeError, KeyError):
        return module.replace("_", "-")


found = []
for module, distribution in NAMES:
    try:
        is_there = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        is_there = False
    version = None
    if is_there:
        distribution = distribution or distribution_of(module)
        try:
            version = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            version = "unknown version"
    found.append([module, distribution, version])
print(json.dumps(found))
