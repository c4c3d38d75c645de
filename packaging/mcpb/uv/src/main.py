"""Starts the server that uv has installed."""

from qwed_mcp import main

main()
