"""One attempt, as its function sees it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from punctual._output import Transcript
from punctual._words import CHECKPOINT_BYTES_MAX, PROGRESS_MESSAGE_BYTES_MAX, Stop, keep_end
from punctual.errors import Stopped
from punctual.v1 import worker_pb2 as pb

#: A checkpoint or a wish to move without an answer is sent again after this time.
REPORT_AGAIN = 3.0

_TRIGGERS = {
    pb.TRIGGER_SCHEDULE: "schedule",
    pb.TRIGGER_MISFIRE: "misfire",
    pb.TRIGGER_MANUAL: "manual",
    pb.TRIGGER_SUBMIT: "submit",
    pb.TRIGGER_RETRY: "retry",
    pb.TRIGGER_PARENT: "parent",
    pb.TRIGGER_WORKFLOW: "workflow",
    pb.TRIGGER_AFTER: "after",
    pb.TRIGGER_EVENT: "event",
    pb.TRIGGER_BACKFILL: "backfill",
    pb.TRIGGER_PING: "ping",
}


class Reporter(Protocol):
    """Sends reports of attempts."""

    def progress(self, report: pb.Report) -> None: ...


class _Attempt:
    """What both kinds of functions see."""

    def __init__(self, given: pb.Assignment, transcript: Transcript, reporter: Reporter) -> None:
        self._given = given
        self._transcript = transcript
        self._reporter = reporter
        self._loop = asyncio.get_running_loop()
        self._params: dict[str, Any] | None = None
        #: The number of the last report.
        self._seq = 0
        #: The newest checkpoint, as JSON.
        self._checkpoint = ""
        #: Checkpoints that wait until they are stored, by their number.
        self._unsaved: dict[int, asyncio.Future[None]] = {}
        self._stop: Stop | None = None
        self._is_over = False

    @property
    def run(self) -> str:
        """The id of the run, as REST and the command line write it."""
        return str(self._given.attempt.run)

    @property
    def token(self) -> int:
        """The fencing token: it outdates every earlier attempt of the run.

        A system that remembers the highest token it has seen can refuse an attempt that was given up and does not know
        it yet.
        """
        return self._given.attempt.token

    @property
    def attempt_key(self) -> str | None:
        """Lets its bearer report for this attempt over REST, and do nothing else. `None`: the node gave none."""
        return self._given.attempt_key if self._given.HasField("attempt_key") else None

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._given.number

    @property
    def namespace(self) -> str:
        return self._given.namespace

    @property
    def job(self) -> str | None:
        """`None` means the run was submitted without a job."""
        return self._given.job or None

    @property
    def trigger(self) -> str:
        """What made the run: `schedule`, `misfire`, `manual`, `submit`, `retry`, `parent`, `workflow`, `after`,
        `event` or `backfill`."""
        return _TRIGGERS.get(self._given.trigger, "unknown")

    @property
    def key(self) -> str | None:
        """The key that the run was submitted with. `None` means it has no key."""
        return self._given.key if self._given.HasField("key") else None

    @property
    def due(self) -> datetime:
        """The scheduled time of the run, even if it starts late."""
        return datetime.fromtimestamp(self._given.due / 1000, UTC)

    @property
    def part(self) -> tuple[int, int]:
        """Which part of a split run this is, from 0, and how many there are: `(0, 1)` for a whole run."""
        shard = self._given.shard
        return (shard.index, shard.total) if self._given.HasField("shard") else (0, 1)

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the run."""
        if self._params is None:
            self._params = json.loads(self._given.params or "{}")
        return self._params

    @property
    def resumed(self) -> Any:
        """The last checkpoint of an earlier attempt. `None` means there is none: start from the beginning."""
        return json.loads(self._given.checkpoint) if self._given.HasField("checkpoint") else None

    @property
    def cancelled(self) -> bool:
        """Whether the attempt should end because of a cancel, a timeout, a replacement, a move or a shutdown."""
        return self._stop is not None

    @property
    def stop_reason(self) -> str | None:
        """Why the attempt should end. `None` means it should not."""
        return None if self._stop is None else str(self._stop)

    def _progress(self, percent: float | None = None, message: str | None = None, checkpoint: str | None = None) -> int:
        """Sends a report with the next number. Only the event loop's thread calls it."""
        self._seq += 1
        progress = pb.Progress(
            attempt=self._given.attempt,
            percent=None if percent is None else min(100, max(0, int(percent))),
            message=None if message is None else keep_end(message, PROGRESS_MESSAGE_BYTES_MAX),
            checkpoint=checkpoint,
            seq=self._seq,
        )
        self._reporter.progress(pb.Report(progress=progress))
        return self._seq

    def _ask_to_move(self, params: str | None) -> None:
        """Asks for another worker, with the newest checkpoint. Only the event loop's thread calls it."""
        self._seq += 1
        progress = pb.Progress(
            attempt=self._given.attempt,
            checkpoint=self._checkpoint or None,
            seq=self._seq,
            rebalance=True,
            params=params,
        )
        self._reporter.progress(pb.Report(progress=progress))

    async def _store(self, checkpoint: str) -> None:
        """Returns when this checkpoint, or a newer one, is stored."""
        self._checkpoint = checkpoint
        first = self._progress(checkpoint=checkpoint)
        stored = self._loop.create_future()
        self._unsaved[first] = stored
        if self._is_over:
            stored.set_exception(Stopped(f"the attempt is over: {self._stop}"))
        try:
            while not (await asyncio.wait({stored}, timeout=REPORT_AGAIN))[0]:
                # No answer: the report may be lost together with a connection or a node. A new number, because a later
                # report may have arrived meanwhile; the newest checkpoint, because it must not be replaced by this one.
                self._progress(checkpoint=self._checkpoint)
            stored.result()
        finally:
            del self._unsaved[first]

    def _saved(self, seq: int) -> None:
        for number, stored in self._unsaved.items():
            if number <= seq and not stored.done():
                stored.set_result(None)

    def _asked_to_stop(self, why: Stop) -> None:
        self._stop = why

    def _over(self) -> None:
        """The grace period is over."""
        self._is_over = True
        for stored in self._unsaved.values():
            if not stored.done():
                stored.set_exception(Stopped(f"the attempt is over: {self._stop}"))


class Context(_Attempt):
    """One attempt of an `async` function."""

    def __init__(self, given: pb.Assignment, transcript: Transcript, reporter: Reporter) -> None:
        super().__init__(given, transcript, reporter)
        self._stopping = asyncio.Event()

    async def wait_cancelled(self) -> None:
        """Waits until the attempt should end. A function that does not end is cancelled after the grace period."""
        await self._stopping.wait()

    def report(self, percent: float | None = None, message: str | None = None) -> None:
        """Reports progress from 0 to 100 and a message that people see beside the run.

        It does not wait. If the function reports faster than the network sends, only the newest values are sent. Of a
        message longer than 256 bytes only the end is kept.
        """
        if percent is not None or message is not None:
            self._progress(percent, message)

    async def checkpoint(self, value: Any) -> None:
        """Records where the next attempt of the run continues, and returns when that is stored.

        The value is anything but `None` that has at most 64 KiB as JSON. If the wait is cancelled, the checkpoint is
        stored or not.
        """
        await self._store(checkpoint_json(value))

    async def rebalance(self, checkpoint: Any = None, params: Mapping[str, Any] | None = None) -> None:
        """Asks to be continued on another worker, and waits until the attempt should end.

        Return then: what the function returns does not matter any more. The next attempt continues at `checkpoint`, or
        at the last one that is stored. `params` changes the parameters of the run as a merge patch: `None` removes one.
        """
        patch = patch_json(params)
        if checkpoint is not None:
            self._checkpoint = checkpoint_json(checkpoint)
        while not self.cancelled:
            # Again and again: the report may be lost together with a connection or a node.
            self._ask_to_move(patch)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_AGAIN):
                    await self._stopping.wait()

    def log(self, text: str) -> None:
        """Adds a line to the log of the run."""
        self._transcript.write(pb.LOG_STREAM_OUT, text if text.endswith("\n") else text + "\n")

    def _asked_to_stop(self, why: Stop) -> None:
        super()._asked_to_stop(why)
        self._stopping.set()


class SyncContext(_Attempt):
    """One attempt of a plain function, which runs in a thread.

    A thread cannot be killed. When the attempt has to end and its grace period is over, `report`, `checkpoint`,
    `rebalance` and `log` raise `Stopped`. A function that calls none of them keeps its slot until it returns.
    """

    def __init__(self, given: pb.Assignment, transcript: Transcript, reporter: Reporter) -> None:
        super().__init__(given, transcript, reporter)
        self._stopping = threading.Event()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Waits until the attempt should end, at most `timeout` seconds. Returns whether it should."""
        return self._stopping.wait(timeout)

    def report(self, percent: float | None = None, message: str | None = None) -> None:
        """As `Context.report`."""
        self._check()
        if percent is not None or message is not None:
            self._loop.call_soon_threadsafe(self._progress, percent, message)

    def checkpoint(self, value: Any) -> None:
        """As `Context.checkpoint`: it blocks until the checkpoint is stored."""
        self._check()
        asyncio.run_coroutine_threadsafe(self._store(checkpoint_json(value)), self._loop).result()

    def rebalance(self, checkpoint: Any = None, params: Mapping[str, Any] | None = None) -> None:
        """As `Context.rebalance`: it blocks until the attempt should end."""
        self._check()
        patch = patch_json(params)
        if checkpoint is not None:
            self._checkpoint = checkpoint_json(checkpoint)
        while not self.cancelled:
            self._loop.call_soon_threadsafe(self._ask_to_move, patch)
            self._stopping.wait(REPORT_AGAIN)

    def log(self, text: str) -> None:
        """Adds a line to the log of the run. Waits while the log accepts no more."""
        self._check()
        self._transcript.write(pb.LOG_STREAM_OUT, text if text.endswith("\n") else text + "\n")

    def _check(self) -> None:
        if self._is_over:
            raise Stopped(f"the attempt is over: {self._stop}")

    def _asked_to_stop(self, why: Stop) -> None:
        super()._asked_to_stop(why)
        self._stopping.set()


def checkpoint_json(value: Any) -> str:
    if value is None:
        raise ValueError("a checkpoint is any JSON but null; `None` means there is no checkpoint")
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if len(text.encode()) > CHECKPOINT_BYTES_MAX:
        raise ValueError(
            f"a checkpoint has at most {CHECKPOINT_BYTES_MAX} bytes of JSON; store large data elsewhere, and its "
            "location here"
        )
    return text


def patch_json(params: Mapping[str, Any] | None) -> str | None:
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise TypeError(f"params are changed by name: give a dict, not {type(params).__name__}")
    return json.dumps(dict(params), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
