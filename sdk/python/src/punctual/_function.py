"""A function that tasks call by name: which parameters it takes, and how it is called."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
import queue
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from punctual.context import Context, SyncContext

NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, slots=True)
class Function:
    call: Callable[..., Any]
    is_async: bool
    #: The parameters that it takes after the context, and those of them that have no default.
    names: tuple[str, ...]
    required: tuple[str, ...]
    #: Whether it has `**parameters`.
    takes_rest: bool

    @staticmethod
    def of(call: Callable[..., Any]) -> Function:
        taken = list(inspect.signature(call).parameters.values())
        if not taken or taken[0].kind not in (taken[0].POSITIONAL_ONLY, taken[0].POSITIONAL_OR_KEYWORD):
            raise TypeError(f"{call!r} takes no context: write `def {getattr(call, '__name__', 'f')}(cx, …)`")
        rest = taken[1:]
        positional_only = [parameter.name for parameter in rest if parameter.kind == parameter.POSITIONAL_ONLY]
        if positional_only:
            raise TypeError(f"{call!r}: the parameters {positional_only} have no name for a caller")
        named = [p for p in rest if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        return Function(
            call,
            inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None)),  # noqa: B004
            tuple(parameter.name for parameter in named),
            tuple(parameter.name for parameter in named if parameter.default is parameter.empty),
            any(parameter.kind == parameter.VAR_KEYWORD for parameter in rest),
        )

    def arguments(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the run that the function takes. Those that it does not take are left out."""
        missing = [name for name in self.required if name not in params]
        if missing:
            raise TypeError(f"the run lacks the parameter{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
        if self.takes_rest:
            return params
        return {name: params[name] for name in self.names if name in params}

    async def result(self, cx: Context | SyncContext) -> str:
        """Calls the function. Returns its result as text."""
        arguments = self.arguments(cx.params) if self.names or self.takes_rest else {}
        try:
            value = await (self.call(cx, **arguments) if self.is_async else in_thread(self.call, cx, arguments))
        except SystemExit as error:
            # It would end the worker.
            raise RuntimeError(f"the function called exit with {error.code!r}") from error
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Threads:
    """Threads for plain functions, used again and again: a new one is started only when all others are busy.

    They are daemons: a function that ignores its stop does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        #: Threads that have nothing to do, without those for which work is queued.
        self._idle = 0

    def run(self, work: Callable[[], None]) -> None:
        with self._lock:
            has_idle = self._idle > 0
            self._idle -= has_idle
        self._work.put(work)
        if not has_idle:
            threading.Thread(target=self._serve, name="punctual", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._work.get()()
            with self._lock:
                self._idle += 1


THREADS = Threads()


async def in_thread(call: Callable[..., Any], cx: Context | SyncContext, arguments: dict[str, Any]) -> Any:
    """Calls a plain function in a thread."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def tell(value: Any, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(value)
        else:
            ended.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(call, cx, **arguments)
        except SystemExit as exit:
            error = RuntimeError(f"the function called exit with {exit.code!r}")
        except StopIteration as stop:
            # A future cannot hold it.
            error = RuntimeError(f"the function raised {stop!r}")
        except BaseException as failure:
            error = failure  # type: ignore[assignment]
        # The event loop may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, value, error)

    THREADS.run(work)
    return await ended
