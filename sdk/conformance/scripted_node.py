"""A scheduling node that does what a script says: it speaks `worker.proto` to a worker, and notes its answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import grpc
import grpc.aio

from punctual.v1 import worker_pb2 as pb

PROTOCOL = 1
LOG_WINDOW = 1024 * 1024
#: How often the node wants a heartbeat. A worker ends a stream on which three are not answered.
HEARTBEAT_MS = 500
#: How long the worker may take for what it has to do at once, on a machine that is busy with other things.
SOON = 20.0

#: What the worker of each rule announces.
SLOTS = 2

Key = tuple[int, int]


class Broken(AssertionError):
    """The worker breaks the rule. The text says how."""


async def until(what: str, holds: Callable[[], bool], within: float = SOON) -> None:
    """Waits until something holds; if it does not in time, the rule is broken."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            raise Broken(f"within {within:g} s: {what}")
        await asyncio.sleep(0.01)


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


class Stream:
    """One session of the worker. It ends when the script or the worker ends it."""

    def __init__(self, node: Node, context: grpc.aio.ServicerContext[pb.FromWorker, pb.FromNode]) -> None:
        self._node = node
        self._context = context
        self.announce = pb.Announce()
        self.is_announced = False
        self.is_admitted = False
        #: Whether heartbeats are answered, and output is acknowledged.
        self.hears = True
        self.keeps = True
        self.lent = 0
        self.used = 0
        self.gave_back = 0
        self.reports: list[pb.Report] = []
        self.chunks: list[pb.LogChunk] = []
        #: The heartbeats: what the worker has in hand.
        self.beats: list[set[Key]] = []
        self.recalled = 0
        self.answered = 0
        self.is_leaving = False
        self.is_over = asyncio.Event()
        self._asks = itertools.count(1)
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        node = self._node
        welcome = pb.Welcome(
            node=node.name,
            version="conformance",
            protocol=PROTOCOL,
            heartbeat_ms=HEARTBEAT_MS,
            lease_ms=3 * HEARTBEAT_MS,
            log_window=LOG_WINDOW,
            nodes=pb.Nodes(),
        )
        await self._context.write(pb.FromNode(welcome=welcome))
        reading = asyncio.ensure_future(self._read())
        over = asyncio.ensure_future(self.is_over.wait())
        try:
            await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            over.cancel()
            self.is_over.set()
        if not self.is_leaving:
            await self._context.abort(grpc.StatusCode.UNAVAILABLE, "the script ends the stream")

    async def _read(self) -> None:
        while isinstance(message := await self._context.read(), pb.FromWorker):
            try:
                await self._hear(message)
            except Broken as broken:
                self._node.watch(False, str(broken))
                return

    async def _hear(self, message: pb.FromWorker) -> None:
        if not self.is_announced:
            check(message.HasField("announce"), "the first message has the announcement")
            self.announce, self.is_announced = message.announce, True
        else:
            self._node.watch(not message.HasField("announce"), "only the first message has an announcement")
        for report in message.reports:
            self._note(report)
        self.chunks.extend(message.logs)
        self.answered = max(self.answered, message.answer)
        self.is_leaving |= message.leaving
        acks = [pb.LogAck(attempt=chunk.attempt, number=chunk.number) for chunk in message.logs] if self.keeps else []
        heard = message.beat if self.hears else 0
        if acks or heard:
            await self.send(pb.FromNode(heard=heard, log_acks=acks))

    def _note(self, report: pb.Report) -> None:
        node = self._node
        self.reports.append(report)
        match report.WhichOneof("said"):
            case "lent":
                node.watch(self.is_admitted, "nothing is lent before the worker is admitted")
                node.watch(report.lent.total >= self.lent, "what was lent never shrinks")
                self.lent = report.lent.total
            case "recall":
                self.recalled += report.recall.credits
            case "alive":
                self.beats.append({(attempt.run, attempt.token) for attempt in report.alive.attempts})

    async def send(self, message: pb.FromNode) -> None:
        # A stream takes one message at a time.
        async with self._writing:
            if not self.is_over.is_set():
                await self._context.write(message)

    @property
    def credits(self) -> int:
        """Slots that were lent and are not used."""
        return self.lent - self.used - self.gave_back

    async def order(self, *orders: pb.Order) -> None:
        await self.send(pb.FromNode(orders=orders))

    async def admit(self) -> None:
        self.is_admitted = True
        await self.send(pb.FromNode(admitted=True))

    async def assign(
        self, key: Key, task: Task, *, again: bool = False, lease: float = 60.0, grace: float | None = None
    ) -> None:
        """Assigns an attempt, as soon as there is a credit for it. `again` needs none."""
        run, token = key
        if not again:
            await until("a slot is lent", lambda: self.credits > 0)
            self.used += 1
        assignment = pb.Assignment(
            attempt=pb.Attempt(run=run, token=token),
            number=1,
            namespace="default",
            trigger=pb.TRIGGER_SUBMIT,
            due=int(time.time() * 1000),
            task=task.json(self.announce),
            params=task.params,
            lease_ms=round(lease * 1000),
            grace_ms=None if grace is None else round(grace * 1000),
            again=again,
        )
        await self.order(pb.Order(assign=assignment))

    async def cancel(self, key: Key, cause: pb.Cause = pb.CAUSE_USER) -> None:
        await self.order(pb.Order(cancel=pb.Cancel(attempt=pb.Attempt(run=key[0], token=key[1]), cause=cause)))

    async def acknowledge(self, key: Key) -> None:
        await self.order(pb.Order(acknowledge=pb.Attempt(run=key[0], token=key[1])))

    def end(self) -> None:
        """Breaks the stream."""
        self.is_over.set()

    def starts(self, key: Key) -> int:
        reports = (report.started for report in self.reports if report.HasField("started"))
        return sum((started.attempt.run, started.attempt.token) == key for started in reports)

    def ends(self, key: Key) -> list[pb.Finished]:
        reports = (report.finished for report in self.reports if report.HasField("finished"))
        return [finished for finished in reports if (finished.attempt.run, finished.attempt.token) == key]

    async def started(self, key: Key) -> None:
        await until(f"the start of {key} is reported", lambda: self.starts(key) > 0)

    async def ended(self, key: Key, within: float = SOON) -> pb.Finished:
        await until(f"the outcome of {key} is reported", lambda: bool(self.ends(key)), within)
        return self.ends(key)[-1]

    def declines(self, key: Key) -> bool:
        reports = (report.declined.attempt for report in self.reports if report.HasField("declined"))
        return any((attempt.run, attempt.token) == key for attempt in reports)

    async def says_draining(self, on: bool) -> None:
        """Waits until the last word about it is this."""
        said = "takes nothing more" if on else "works again"

        def says() -> bool:
            words = [report.draining.on for report in self.reports if report.HasField("draining")]
            return words[-1:] == [on]

        await until(f"the worker says that it {said}", says)

    async def settle(self) -> None:
        """Waits until the worker has read everything that was sent, and has sent two more heartbeats."""
        ask = next(self._asks)
        await self.send(pb.FromNode(ask=ask))
        await until("the worker answers when it is asked whether it lives", lambda: self.answered >= ask)
        count = len(self.beats)
        await until("the worker sends heartbeats", lambda: len(self.beats) >= count + 2)


class Task:
    """Work that leaves evidence in a file: a line for its start, one every 50 ms while it runs, and one for its end."""

    _numbers = itertools.count(1)

    def __init__(self, node: Node, seconds: float, stubborn: bool) -> None:
        self._file = node.folder / f"evidence-{next(Task._numbers)}"
        self._seconds = seconds
        self._stubborn = stubborn
        self.params = json.dumps({"file": str(self._file), "seconds": seconds, "stubborn": stubborn})

    def json(self, announce: pb.Announce) -> bytes:
        """A function, if the worker has it; else the same in shell."""
        if "conformance" in announce.functions:
            return json.dumps({"function": "conformance"}).encode()
        check("shell" in announce.kinds, "the worker has the function `conformance` or takes shell tasks")
        file, ticks = shlex.quote(str(self._file)), round(self._seconds / 0.05)
        lines = [
            "trap '' TERM" if self._stubborn else "",
            f"echo start >> {file}",
            "echo hello",
            f"i=0; while [ $i -lt {ticks} ]; do echo tick >> {file}; sleep 0.05; i=$((i + 1)); done",
            f"echo end >> {file}",
        ]
        return json.dumps({"shell": "\n".join(lines)}).encode()

    def count(self, line: str) -> int:
        return self._file.read_text().splitlines().count(line) if self._file.exists() else 0

    def most_at_once(self) -> int:
        """How many executions of this task ran at once, at most."""
        most = running = 0
        for line in self._file.read_text().splitlines():
            running += {"start": 1, "end": -1}.get(line, 0)
            most = max(most, running)
        return most

    async def begins(self) -> None:
        await until("the work begins", lambda: self.count("tick") > 0)

    async def stops(self, within: float) -> None:
        """Waits until the work no longer goes on."""
        end = time.monotonic() + within
        while True:
            before = self.count("tick")
            await asyncio.sleep(0.5)
            if self.count("tick") == before:
                return
            if time.monotonic() > end:
                raise Broken(f"within {within:g} s: the work is stopped")


class Node:
    """The node and its worker: a process that is started with the command of the caller."""

    def __init__(self, command: Iterable[str], folder: Path, slots: int) -> None:
        self.name = f"node-{os.urandom(4).hex()}"
        #: Where it listens, `host:port`.
        self.address = ""
        self.folder = folder
        self.slots = slots
        self.streams: list[Stream] = []
        #: Whether the node takes new streams.
        self.accepts = True
        self._broken: list[str] = []
        self._command = list(command)
        self._server = grpc.aio.server()
        self._log = (folder / "worker.log").open("wb")
        self.process: asyncio.subprocess.Process | None = None

    async def listen(self) -> None:
        handler = grpc.stream_stream_rpc_method_handler(
            self._session,
            request_deserializer=pb.FromWorker.FromString,
            response_serializer=pb.FromNode.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("punctual.v1.Worker", {"Session": handler})
        self._server.add_generic_rpc_handlers((service,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()

    async def start(self) -> None:
        """Listens, and starts the worker."""
        await self.listen()
        given = {
            "PUNCTUAL_SERVER": f"http://{self.address}",
            "PUNCTUAL_WORKER_NAME": "conformance",
            "PUNCTUAL_DATA": str(self.folder / "data"),
            "PUNCTUAL_SLOTS": str(self.slots),
        }
        self.process = await asyncio.create_subprocess_exec(
            *self._command, env={**os.environ, **given}, stdout=self._log, stderr=self._log, start_new_session=True
        )

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()
        await self._server.stop(None)
        self._log.close()

    async def _session(self, _: object, context: grpc.aio.ServicerContext[pb.FromWorker, pb.FromNode]) -> None:
        if not self.accepts:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the script takes no stream now")
        stream = Stream(self, context)
        self.streams.append(stream)
        await stream.run()

    async def next_stream(self, *, admits: bool = True) -> Stream:
        """The next stream of the worker, after its announcement."""
        count = sum(stream.is_over.is_set() for stream in self.streams)
        what = "the worker dials and announces itself"
        await until(what, lambda: len(self.streams) > count and self.streams[-1].is_announced)
        stream = self.streams[-1]
        if admits:
            await stream.admit()
        return stream

    def task(self, seconds: float, *, stubborn: bool = False) -> Task:
        """Work that takes so long. If it is stubborn, it does not end when it is asked to."""
        return Task(self, seconds, stubborn)

    def watch(self, holds: bool, what: str) -> None:
        """A rule that is watched all the time."""
        if not holds:
            self._broken.append(what)

    def verify(self) -> None:
        check(not self._broken, "; ".join(dict.fromkeys(self._broken)))

    def log_tail(self) -> str:
        return "\n".join((self.folder / "worker.log").read_text(errors="replace").splitlines()[-15:])


async def play(script: Callable[[Node], object], command: Iterable[str], slots: int) -> str | None:
    """Plays one script against a fresh worker. Returns how the rule is broken, or `None`."""
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        node = Node(command, Path(folder), slots)
        try:
            await node.start()
            playing = script(node)
            assert asyncio.iscoroutine(playing)
            await playing
            node.verify()
        except Broken as broken:
            print(node.log_tail(), file=sys.stderr)
            return str(broken)
        except Exception as error:
            traceback.print_exc()
            return f"the script failed: {error!r}"
        finally:
            await node.stop()
    return None


Script = Callable[[Node], Awaitable[None]]
RULES: list[tuple[str, Script]] = []


def rule(text: str) -> Callable[[Script], Script]:
    def add(script: Script) -> Script:
        RULES.append((text, script))
        return script

    return add
