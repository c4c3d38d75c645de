"""QWED-MCP for Python: the documented classes, and the server under its old module names.

`qwed_mcp.security` has `RiskBasedExecutionGateway` and `SkillProvenanceGuard`. `qwed_mcp.observability.aibom` has
`AIBOMGenerator`. `qwed_mcp.client` runs and judges scripts. All of them call the program `qwed-mcp`, which this package
installs. `python -m qwed_mcp` starts the server.
"""

from importlib import metadata as _metadata

from ._program import main

try:
    __version__ = _metadata.version("qwed-mcp")
except _metadata.PackageNotFoundError:  # not installed, but imported from the source tree
    __version__ = "0+source"

__all__ = ["__version__", "main"]
