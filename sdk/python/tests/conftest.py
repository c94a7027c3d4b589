"""What the tests share: a real node that is started, killed, stopped and started again."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from punctual import Client, Worker

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("PUNCTUAL") or str(ROOT / "target/debug/punctual")
#: How long something may take that happens at once, on a machine that is busy with other things.
SOON = 30.0
#: How long any test may take; the full ones take minutes.
TEST_MAX = 900.0 if "FULL" in os.environ else 90.0


class Node:
    """One node that runs nothing itself: `punctual dev`, or what the test says."""

    def __init__(self, folder: Path, *kind: str, lease: int = 5) -> None:
        """`kind` is the command and its options, such as `server`."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{self.address}"
        self._folder = folder
        self._lease = lease
        self._kind = kind or ("dev", "--resp", "127.0.0.1:0")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it on the address that it had before, and returns when it answers."""
        place = self._folder / "data" / "punctual.json"
        place.unlink(missing_ok=True)
        data = ["--data", str(self._folder / "data"), "--durability", "relaxed", "--slots", "0"]
        command = [BINARY, *self._kind, *data, "--http", self.address, "--attempt-lease", f"{self._lease}s"]
        with (self._folder / "node.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + SOON
        while not place.exists() or "url" not in json.loads(place.read_text() or "{}"):
            assert self._process.poll() is None, (self._folder / "node.log").read_text()
            assert time.monotonic() < deadline, "the node does not start"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """As `kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Program:
    """A worker in a process of its own: a script of the folder `programs`, or any by its whole path."""

    def __init__(self, script: str | Path, node: Node, folder: Path, name: str = "program", **env: str) -> None:
        file = Path(__file__).parent / "programs" / script
        given = {"PUNCTUAL_SERVER": node.url, "NAME": name, "FOLDER": str(folder), "PYTHONUNBUFFERED": "1", **env}
        with (folder / f"{name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(file), name, node.url], env={**os.environ, **given}, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """As `kill -9`."""
        self.process.kill()
        self.process.wait()

    async def ends(self) -> int:
        await until(lambda: self.process.poll() is not None)
        return self.process.returncode


def lines(folder: Path, start: str) -> list[str]:
    """What programs/settle.py has noted."""
    file = folder / "rows"
    return [line for line in file.read_text().splitlines() if line.startswith(start)] if file.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.start()
    yield node
    node.kill()


@asynccontextmanager
async def working(worker: Worker, token: str | None = None, ca: Path | None = None) -> AsyncIterator[Client]:
    """Runs a worker, and gives a client of its node."""
    serving = asyncio.ensure_future(worker.serve())
    ready = asyncio.ensure_future(worker.ready())
    await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if serving.done():
            serving.result()
        async with Client(worker.servers[0], token, ca=ca) as client:
            yield client
    finally:
        ready.cancel()
        worker.stop(now=True)
        await serving


async def until(holds: Callable[[], bool | Awaitable[bool]], within: float = SOON) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + within
    while True:
        now = holds()
        if await now if inspect.isawaitable(now) else now:
            return
        assert time.monotonic() < deadline, f"not within {within} s: {inspect.getsource(holds).strip()}"
        await asyncio.sleep(0.02)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine in an event loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}

    async def limited() -> None:
        async with asyncio.timeout(TEST_MAX):
            await test(**given)

    asyncio.run(limited())
    return True
