"""`python -m qwed_mcp`: replaces this process by the program, with the same arguments."""

from ._program import main

main()
