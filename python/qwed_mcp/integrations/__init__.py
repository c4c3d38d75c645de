"""Tools, executors and sandboxes for agent frameworks, each in the framework's own interface.

Each module imports its framework, so import only the module that you need. This package changes no verdict: a result that is
not `verified` is visible to the model, and a fault of the machine raises InfraError or is marked as such.
"""
