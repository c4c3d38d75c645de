"""Errors that are not the fault of a script."""


class VerifierError(Exception):
    """The base class of this package's errors."""


class StartError(VerifierError):
    """The program cannot be started, or it refuses its arguments. A retry does not help."""


class ClosedError(VerifierError):
    """The verifier was closed before the answer arrived, or before the call."""


class InfraError(VerifierError):
    """A script was not judged. Nothing is known about whether it is correct."""
