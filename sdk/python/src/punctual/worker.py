"""A worker: functions of this program that a Punctual cluster calls."""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from punctual._function import NAME, Function
from punctual._link import Settings
from punctual._output import captured
from punctual._session import Config, Session
from punctual._where import authorities, servers
from punctual._where import token as token_of
from punctual.v1 import worker_pb2 as pb

F = TypeVar("F", bound=Callable[..., Any])

SLOTS_MAX = 65_536


class Worker:
    """Dials the nodes of a cluster and runs its functions.

    worker = Worker(server="http://127.0.0.1:7400")

    @worker.function("settle")
    async def settle(cx, day):
        ...

    worker.run()
    """

    def __init__(  # noqa: PLR0913
        self,
        server: str | Sequence[str] | None = None,
        *,
        token: str | None = None,
        name: str | None = None,
        slots: int = 8,
        labels: Mapping[str, str] | None = None,
        weight: int = 1,
        drain: float = 30.0,
        grace: float = 10.0,
        ca: str | Path | None = None,
        capture: bool = True,
    ) -> None:
        """Every argument may be left out.

        server: URLs of scheduling nodes; one is enough, it names the others. Default: `PUNCTUAL_SERVER`, else this
            machine.
        token: the token of the worker. Default: `PUNCTUAL_TOKEN`.
        name: what people call the worker, different for each one. Default: the host name.
        slots: how many functions run at once.
        labels: what jobs select workers by.
        weight: the share of the worker where runs are routed by weight.
        drain: seconds that running functions may take to finish after the worker is asked to stop.
        grace: seconds that a function may take to end after it is asked to.
        ca: a file with certificates to trust for `https`, in addition to those of the system. Default: `PUNCTUAL_CA`.
        capture: whether prints of a function go to the log of its run.
        """
        self.servers = servers(server)
        self.name = name if name is not None else re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:128]
        if not NAME.fullmatch(self.name):
            raise ValueError("name: 1 to 128 letters, digits, dots, dashes and underscores")
        if not 1 <= slots <= SLOTS_MAX:
            raise ValueError(f"slots: 1 to {SLOTS_MAX}, not {slots}")
        self._settings = Settings(token_of(token), authorities(ca))
        self._slots, self._labels, self._weight = slots, dict(labels or {}), weight
        self._drain, self._grace, self._capture = drain, grace, capture
        self._functions: dict[str, Function] = {}
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._admitted = asyncio.Event()

    def function(self, name: str | None = None) -> Callable[[F], F]:
        """Registers a function. Its first parameter gets the context, the others the parameters of the run by name.

        An `async` function runs in the event loop and gets a `Context`. A plain function runs in a thread and gets a
        `SyncContext`. The result is a text, or a value that is stored as JSON.
        """

        def register(call: F) -> F:
            called = name if name is not None else call.__name__
            if not NAME.fullmatch(called):
                raise ValueError(f"`{called}`: 1 to 128 letters, digits, dots, dashes and underscores")
            if called in self._functions:
                raise ValueError(f"a function `{called}` is registered already")
            self._functions[called] = Function.of(call)
            return call

        return register

    def run(self) -> None:
        """Works until the process gets SIGTERM or SIGINT; then it drains. A second signal stops it at once."""
        asyncio.run(self._run())

    async def serve(self) -> None:
        """Works in the event loop of this program, until `stop` is called. Raises `Refused` if no node takes it."""
        config = Config(
            servers=self.servers,
            settings=self._settings,
            announce=pb.Announce(
                name=self.name,
                life=secrets.randbits(63),
                version=metadata.version("punctual"),
                slots=self._slots,
                labels=self._labels,
                kinds=["function"],
                functions=sorted(self._functions),
                weight=self._weight,
            ),
            functions=self._functions,
            drain=self._drain,
            grace=self._grace,
            on_admitted=self._admitted,
        )
        if self._capture:
            with captured():
                await Session(config).run(self._stop, self._stop_now)
        else:
            await Session(config).run(self._stop, self._stop_now)

    async def ready(self) -> None:
        """Waits until a node has taken the worker."""
        await self._admitted.wait()

    def stop(self, *, now: bool = False) -> None:
        """Takes nothing more. What runs may finish within `drain`; with `now` it is asked to end at once."""
        self._stop.set()
        if now:
            self._stop_now.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: self.stop(now=self._stop.is_set()))
        await self.serve()
