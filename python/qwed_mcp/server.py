"""`python -m qwed_mcp.server`, for configurations of version 0.2: replaces this process by the program."""

from ._program import main

if __name__ == "__main__":
    main()
