"""Errors that are not the fault of a script."""


class VerifierError(Exception):
    """The base class of this package's errors."""


class StartError(VerifierError):
    """The program cannot be started, or it refuses its arguments. A retry does not help."""


class ClosedError(VerifierError):
    """The verifier was closed before the call or before the answer arrived, or the answer belongs to a fork's parent."""


class InfraError(VerifierError):
    """A script was not judged. It is unknown whether the script is correct."""
