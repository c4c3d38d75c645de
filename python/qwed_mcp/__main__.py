"""`python -m qwed_mcp`: the program in the place of this process, with the same arguments."""

from ._program import main

main()
