"""`python -m qwed_mcp.server`, which configurations of 0.2 start: the program in the place of this process."""

from ._program import main

if __name__ == "__main__":
    main()
