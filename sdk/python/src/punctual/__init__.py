"""Punctual from Python: a worker that runs functions, and a client of its REST API."""

from punctual.client import Client, Job, Run
from punctual.context import Context, SyncContext
from punctual.errors import Problem, PunctualError, Refused, Stopped, Unreachable
from punctual.lock import Lock
from punctual.worker import Worker

__all__ = [
    "Client",
    "Context",
    "Job",
    "Lock",
    "Problem",
    "PunctualError",
    "Refused",
    "Run",
    "Stopped",
    "SyncContext",
    "Unreachable",
    "Worker",
]
