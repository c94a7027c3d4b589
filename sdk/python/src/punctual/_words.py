"""The words of the protocol that several modules share, and its limits."""

from __future__ import annotations

import enum
from typing import NamedTuple

from punctual.v1 import worker_pb2 as pb

#: The version of the protocol between workers and nodes.
PROTOCOL = 1
#: Bytes of output on one stream that may be unacknowledged.
LOG_WINDOW_BYTES = 1024 * 1024
#: The largest message, incoming or outgoing.
MESSAGE_BYTES_MAX = 4 * 1024 * 1024
#: The size at which a message is sent.
MESSAGE_BYTES_FULL = 1024 * 1024
CHUNK_BYTES_MAX = 64 * 1024
LINE_BYTES_MAX = 16 * 1024
#: Output of one attempt that is kept.
RUN_LOG_BYTES_MAX = 64 * 1024 * 1024
OUTPUT_BYTES_MAX = 1024 * 1024
ERROR_BYTES_MAX = 4 * 1024
PROGRESS_MESSAGE_BYTES_MAX = 256
CHECKPOINT_BYTES_MAX = 64 * 1024

#: One attempt of a run: the run and the token.
Key = tuple[int, int]
#: The connection to one node. It stays the same when the node is dialled again.
LinkId = int


class Now(NamedTuple):
    """The time. Rules get it as an argument."""

    #: Milliseconds since 1970, for people.
    wall: int
    #: Seconds of the monotonic clock, for leases and waits.
    elapsed: float


class Stop(enum.Enum):
    """Why an attempt is stopped."""

    CANCELLED = "cancelled on request"
    CANCELLED_NOW = "cancelled on request, at once"
    TIMEOUT = "stopped at its timeout"
    REPLACED = "replaced by a newer run"
    JOB_DELETED = "its job was deleted"
    OUTDATED = "its attempt was given up"
    MOVED = "moved to another worker"
    SUPERSEDED = "a newer attempt took its place"
    SHUTDOWN = "its worker shut down"
    DRAINED = "its worker was drained"
    UNHEARD = "no node has heard its worker for a lease"

    def __str__(self) -> str:
        return self.value

    @property
    def is_yield(self) -> bool:
        """Whether the worker gives the attempt up, and the run goes on elsewhere."""
        return self in (Stop.SHUTDOWN, Stop.DRAINED)

    @property
    def is_at_once(self) -> bool:
        """Whether there is no grace period. Without contact to the node another attempt may already be running."""
        return self in (Stop.UNHEARD, Stop.CANCELLED_NOW)

    @staticmethod
    def of(cause: pb.Cause) -> Stop:
        """The cause of a cancel. A cause of a newer node is unknown: the attempt must end, another may be running."""
        return _CAUSES.get(cause, Stop.OUTDATED)


_CAUSES = {
    pb.CAUSE_USER: Stop.CANCELLED,
    pb.CAUSE_TIMEOUT: Stop.TIMEOUT,
    pb.CAUSE_REPLACED: Stop.REPLACED,
    pb.CAUSE_JOB_DELETED: Stop.JOB_DELETED,
    pb.CAUSE_MOVED: Stop.MOVED,
    pb.CAUSE_USER_NOW: Stop.CANCELLED_NOW,
}


def keep_end(text: str, most: int) -> str:
    """Cuts a text to `most` bytes. The end is kept, which usually says most, and a mark shows the cut."""
    data = text.encode(errors="replace")
    if len(data) <= most:
        return data.decode()
    mark = "[…] "
    return mark + data[len(data) - most + len(mark.encode()) :].decode(errors="ignore")


def finished(key: Key, end: pb.End, started_at: int, output: str = "", error: str = "") -> pb.Report:
    """The report of an outcome."""
    return pb.Report(
        finished=pb.Finished(
            attempt=pb.Attempt(run=key[0], token=key[1]),
            end=end,
            started_at=started_at,
            output=keep_end(output, OUTPUT_BYTES_MAX),
            error=keep_end(error, ERROR_BYTES_MAX),
        )
    )
