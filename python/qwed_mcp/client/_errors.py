"""What goes wrong without being a script's fault."""


class VerifierError(Exception):
    """The base of this package's own errors."""


class StartError(VerifierError):
    """The program cannot be started, or it refuses to work as it was asked to. Trying again does not help."""


class ClosedError(VerifierError):
    """The verifier was closed before the answer was there, or before it was asked."""


class InfraError(VerifierError):
    """A script was not judged: this says nothing about whether it is right."""
