"""Messages for one node that the stream has not sent yet.

The session adds reports; when the network has room, the stream sends all that has accumulated as one message. So a slow
network makes messages larger, not more numerous. The outbox is bounded: outcomes by the running attempts, output by its
window, and of heartbeats, credit totals, load and the progress of an attempt only the newest is kept.
"""

from __future__ import annotations

import asyncio
from collections import deque

from punctual._words import LOG_WINDOW_BYTES, MESSAGE_BYTES_FULL, Key
from punctual.v1 import worker_pb2 as pb


def key_of(attempt: pb.Attempt) -> Key:
    return attempt.run, attempt.token


class Outbox:
    def __init__(self, window: int = LOG_WINDOW_BYTES) -> None:
        self._announce: pb.Announce | None = None
        self._reports: deque[pb.Report] = deque()
        #: The unsent progress of each attempt; a newer report is merged into it.
        self._progress: dict[Key, pb.Report] = {}
        self._alive: tuple[int, pb.Report] | None = None
        #: The newest lent, recall and load, by name.
        self._newest: dict[str, pb.Report] = {}
        self._answer = 0
        self._logs: deque[pb.LogChunk] = deque()
        #: Chunks that were sent and not yet acknowledged.
        self._unacknowledged: dict[tuple[Key, int], pb.LogChunk] = {}
        self._in_flight = 0
        self._window = window
        self._is_leaving = False
        self._is_closed = False
        self._filled = asyncio.Event()

    def announce(self, announce: pb.Announce) -> None:
        self._announce = announce
        self._filled.set()

    def report(self, report: pb.Report) -> None:
        said = report.WhichOneof("said")
        if said in ("lent", "recall", "load"):
            self._newest[said] = report
        elif said == "progress":
            self._add_progress(report)
        else:
            self._reports.append(report)
        self._filled.set()

    def beat(self, number: int, holding: list[Key]) -> None:
        attempts = [pb.Attempt(run=run, token=token) for run, token in holding]
        self._alive = (number, pb.Report(alive=pb.Alive(attempts=attempts)))
        self._filled.set()

    def answer(self, ask: int) -> None:
        """Answers the node's question whether the worker lives."""
        self._answer = ask
        self._filled.set()

    def log(self, chunk: pb.LogChunk) -> None:
        self._logs.append(chunk)
        self._filled.set()

    def acknowledged(self, ack: pb.LogAck) -> pb.LogChunk | None:
        """Removes a chunk that the node stored or refused for good. `None` means it was not in flight."""
        chunk = self._unacknowledged.pop((key_of(ack.attempt), ack.number), None)
        if chunk is not None:
            self._in_flight -= len(chunk.bytes)
            self._filled.set()
        return chunk

    def take_logs(self) -> list[pb.LogChunk]:
        """Takes the output that the node may not have stored, so that another node can."""
        logs = [*self._unacknowledged.values(), *self._logs]
        self._unacknowledged.clear()
        self._logs.clear()
        self._in_flight = 0
        return logs

    def leave(self) -> None:
        """Sends what is queued, then a good-bye, and ends the stream."""
        self._is_leaving = self._is_closed = True
        self._filled.set()

    def close(self) -> None:
        """Ends the stream without a good-bye."""
        self._is_closed = True
        self._filled.set()

    async def next(self) -> pb.FromWorker | None:
        """The next message. `None` means the stream ends."""
        while True:
            message = self.message()
            if message is not None or self._is_closed:
                return message
            self._filled.clear()
            await self._filled.wait()

    def message(self) -> pb.FromWorker | None:
        """Everything that fits into one message. `None` means there is nothing to send."""
        message = pb.FromWorker(announce=self._announce, answer=self._answer)
        self._announce, self._answer = None, 0
        size = message.ByteSize()
        if self._alive is not None:
            message.beat, alive = self._alive
            message.reports.append(alive)
            size += alive.ByteSize()
            self._alive = None
        message.reports.extend(self._newest.values())
        self._newest.clear()
        while self._reports and size < MESSAGE_BYTES_FULL:
            report = self._reports.popleft()
            if report.HasField("progress"):
                del self._progress[key_of(report.progress.attempt)]
            message.reports.append(report)
            size += report.ByteSize()
        while self._logs and size < MESSAGE_BYTES_FULL and self._fits(self._logs[0]):
            chunk = self._logs.popleft()
            self._in_flight += len(chunk.bytes)
            size += chunk.ByteSize()
            message.logs.append(chunk)
            self._unacknowledged[key_of(chunk.attempt), chunk.number] = chunk
        if size > 0 or message.reports:
            return message
        if self._is_leaving:
            self._is_leaving = False
            return pb.FromWorker(leaving=True)
        return None

    def _fits(self, chunk: pb.LogChunk) -> bool:
        return self._in_flight == 0 or self._in_flight + len(chunk.bytes) <= self._window

    def _add_progress(self, report: pb.Report) -> None:
        key = key_of(report.progress.attempt)
        unsent = self._progress.get(key)
        if unsent is None:
            # A copy: the same report may go to several nodes.
            unsent = pb.Report()
            self._progress[key] = unsent
            self._reports.append(unsent)
        unsent.MergeFrom(report)
