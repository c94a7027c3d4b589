"""The execution of one attempt, from its start to its outcome.

An exception is a failed attempt. A function cannot be killed: it is asked to stop, and if it has not ended after the
grace period an `async` function is cancelled, which ends it at its next `await`. Until it has ended it keeps its slot.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from punctual._function import Function
from punctual._output import Transcript, current
from punctual._words import Key, Stop, finished
from punctual.context import Context, Reporter, SyncContext
from punctual.v1 import worker_pb2 as pb

#: A function that ignores its cancellation is cancelled again after this time.
CANCEL_AGAIN = 1.0

#: Told when an execution has ended: its key, its outcome and why the worker stopped it.
Done = Callable[[Key, pb.Report, Stop | None], None]


class Execution:
    def __init__(  # noqa: PLR0913, PLR0917
        self,
        given: pb.Assignment,
        function: Function,
        started_at: int,
        transcript: Transcript,
        reporter: Reporter,
        done: Done,
        grace: float,
    ) -> None:
        """`grace` is that of the worker; the job may set another."""
        self.grace = given.grace_ms / 1000 if given.HasField("grace_ms") else grace
        self.key = (given.attempt.run, given.attempt.token)
        self._function = function
        self._started_at = started_at
        self._transcript = transcript
        self._done = done
        self.cx = (Context if function.is_async else SyncContext)(given, transcript, reporter)
        self._stopped: Stop | None = None
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    def stop(self, why: Stop) -> None:
        """Asks the function to end, and insists after the grace period. A later reason can only shorten that."""
        if self._stopped is None:
            self._stopped = why
            self._transcript.note(f"asked to end: {why}")
            self.cx._asked_to_stop(why)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(0 if why.is_at_once else self.grace, self._insist)

    async def _run(self) -> str:
        current.set(self._transcript)
        return await self._function.result(self.cx)

    def _insist(self) -> None:
        self._is_over = True
        self.cx._over()
        if self._function.is_async:
            self._task.cancel()
            self._timer = self._loop.call_later(CANCEL_AGAIN, self._insist)

    def _ended(self, task: asyncio.Task[str]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        output, error = self._judge(task)
        if self._stopped is not None:
            how = "it ended" if error is None else error
            if self._is_over:
                how = "it had not ended when its grace was over, and was cancelled"
            output, error = "", f"{self._stopped}: {how}"
        if error is not None:
            self._transcript.note(error)
        self._transcript.close()
        end = pb.END_SUCCEEDED if error is None else pb.END_FAILED
        if self._stopped is Stop.TIMEOUT:
            end = pb.END_TIMED_OUT
        outcome = finished(self.key, end, self._started_at, output, error or "")
        self._done(self.key, outcome, self._stopped)

    def _judge(self, task: asyncio.Task[str]) -> tuple[str, str | None]:
        """The result and the error of the function."""
        if task.cancelled():
            return "", "it was cancelled"
        failure = task.exception()
        if failure is None:
            return task.result(), None
        if not self._is_over:
            frames = of_function(failure.__traceback__)
            if frames is not None:
                lines = traceback.format_exception(type(failure), failure, frames)
                self._transcript.write(pb.LOG_STREAM_ERR, "".join(lines))
        text = str(failure)
        return "", f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def of_function(frames: TracebackType | None) -> TracebackType | None:
    """The frames of the function itself: those of this package say nothing about it."""
    own = str(Path(__file__).parent)
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(own):
        frames = frames.tb_next
    return frames
