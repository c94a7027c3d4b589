"""What can go wrong, grouped by what the caller can do about it."""

from __future__ import annotations


class PunctualError(Exception):
    """Everything that this package raises itself."""


class Refused(PunctualError):
    """A node refused the worker, and would refuse it again. The text says why."""


class Stopped(PunctualError):
    """The attempt has to end and its grace period is over: a plain function gets this from its context."""


class Unreachable(PunctualError):
    """No answer, or a part of one: whether a change happened is unknown."""


class Problem(PunctualError):
    """The server answered and says what is wrong."""

    def __init__(self, status: int, code: str, message: str, field: str | None = None) -> None:
        super().__init__(f"{message} ({code})")
        self.status = status
        #: A short name that stays the same, such as `no_such_run`.
        self.code = code
        self.message = message
        #: The field of the request that is wrong. `None` means that it is no single field.
        self.field = field
