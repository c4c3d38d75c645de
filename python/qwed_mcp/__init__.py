"""QWED-MCP for Python: the documents' classes, and the server under its old module names.

`qwed_mcp.security` has `RiskBasedExecutionGateway` and `SkillProvenanceGuard`, `qwed_mcp.observability.aibom` has
`AIBOMGenerator`, `qwed_mcp.client` runs scripts and judges them. They are thin over the program `qwed-mcp` that is installed beside this package.
`python -m qwed_mcp` starts the server.
"""

from importlib import metadata as _metadata

from ._program import main

try:
    __version__ = _metadata.version("qwed-mcp")
except _metadata.PackageNotFoundError:  # not installed: this is the source
    __version__ = "0+source"

__all__ = ["__version__", "main"]
