"""Tools, executors and sandboxes for agent frameworks. Each module implements the interface of one framework.

Each module imports its framework, so import only the module that you need. This package changes no verdict. The model
sees if a result is not `verified`. A fault of the machine raises InfraError, or the text for the model describes it.
"""
