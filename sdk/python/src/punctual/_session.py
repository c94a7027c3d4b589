"""The session: feeds the driver with what happens, and does what the driver says.

One event loop serves everything. Messages pile up in the outboxes, bounded by the attempts in hand, so neither the
functions nor the driver ever wait for a node.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from punctual._driver import Driver
from punctual._execution import Execution
from punctual._function import Function
from punctual._link import Link, Settings
from punctual._load import Gauge
from punctual._outbox import Outbox, key_of
from punctual._output import Room, Transcript
from punctual._words import PROTOCOL, Key, LinkId, Now, Stop, finished
from punctual.errors import Refused
from punctual.v1 import worker_pb2 as pb

log = logging.getLogger("punctual")

#: How long a node may take to hear the good-bye.
PARTING_MAX = 2.0


@dataclass
class Peer:
    """A node that is dialled."""

    link: Link
    outbox: Outbox | None = None
    is_admitted: bool = False
    #: Why it refused the worker last. `None` means it has not since it last admitted it.
    refusal: str | None = None


@dataclass(frozen=True)
class Config:
    servers: Sequence[str]
    settings: Settings
    #: What the worker announces, without the attempts in hand.
    announce: pb.Announce
    functions: Mapping[str, Function]
    drain: float
    grace: float
    on_admitted: asyncio.Event = field(default_factory=asyncio.Event)


class Session:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        #: Not that of a function that reports: what the session prints does not belong to its run.
        self._context = contextvars.copy_context()
        self._driver = Driver(config.announce.slots, self, config.drain)
        self._peers: dict[LinkId, Peer] = {}
        self._executions: dict[int, Execution] = {}
        self._room = Room()
        #: Output that no node can take now.
        self._unsent: list[pb.LogChunk] = []
        self._gauge = Gauge()
        #: The load that was measured for the newest heartbeat.
        self._load: tuple[int, pb.Report | None] = (0, None)
        self._is_turning = False
        self._timer: asyncio.TimerHandle | None = None
        self._drained = asyncio.Event()
        self._idle = asyncio.Event()
        self._refused: Refused | None = None
        self._drops: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event, stop_now: asyncio.Event) -> None:
        """Works until it is stopped, or until the first node that answers refuses the worker."""
        for url in self._config.servers:
            self._driver.add_node(url)
        self._turn()
        stopping = asyncio.ensure_future(stop.wait())
        drained = asyncio.ensure_future(self._drained.wait())
        at_once = asyncio.ensure_future(stop_now.wait())
        await asyncio.wait({stopping, drained, at_once}, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done() and not at_once.done():
            log.info("draining: the worker takes nothing more")
            self._driver.drain(self._config.drain, now())
            self._soon()
            await asyncio.wait({drained, at_once}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (stopping, drained, at_once):
            waiting.cancel()
        await self._shut_down()
        if self._refused is not None:
            raise self._refused

    async def _shut_down(self) -> None:
        self._driver.stop()
        self._turn()
        if self._executions:
            # A function that ignores its cancel is left behind, and its attempt with it: it runs again elsewhere.
            self._idle.clear()
            longest = max(execution.grace for execution in self._executions.values())
            try:
                async with asyncio.timeout(longest + PARTING_MAX):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("%s functions did not end in time and are left behind", len(self._executions))
        # There is no time left to wait until output is kept.
        self._driver.stop()
        self._turn()
        if self._timer is not None:
            self._timer.cancel()
        parting = [peer.link.leave(peer.outbox) for peer in self._peers.values() if peer.is_admitted and peer.outbox]
        if parting:
            await asyncio.wait({asyncio.ensure_future(leaving) for leaving in parting}, timeout=PARTING_MAX)
        await asyncio.gather(*(peer.link.drop() for peer in self._peers.values()), *self._drops)

    # What links tell.

    def welcomed(self, link: LinkId, welcome: pb.Welcome, outbox: Outbox) -> bool:
        peer = self._peers.get(link)
        if peer is None:
            return False
        peer.outbox = outbox
        is_wanted = self._driver.welcomed(link, welcome, now())
        if not is_wanted:
            peer.outbox = None
        self._soon()
        return is_wanted

    def message(self, link: LinkId, message: pb.FromNode) -> None:
        peer = self._peers.get(link)
        # What comes after the worker hung up is too late: what it assigns may run elsewhere.
        if peer is None or peer.outbox is None:
            return
        if message.admitted and not peer.is_admitted:
            self._admitted(link, peer)
        if message.ask:
            peer.outbox.answer(message.ask)
        if message.heard:
            self._driver.heard(link, message.heard)
        for ack in message.log_acks:
            chunk = peer.outbox.acknowledged(ack)
            if chunk is not None:
                self._room.give(len(chunk.bytes))
                self._driver.output_kept(key_of(ack.attempt))
        if message.HasField("nodes"):
            self._driver.members(link, message.nodes.addresses)
        if message.orders:
            self._driver.ordered(link, message.orders, now())
        self._soon()

    def gone(self, link: LinkId, why: Exception) -> None:
        peer = self._peers.get(link)
        if peer is None:
            return
        if isinstance(why, Refused):
            # A worker that no node has taken ends with the reason; a worker that was taken goes on trying.
            if not self._config.on_admitted.is_set():
                self._refused = why
                self._drained.set()
            elif peer.refusal != str(why):
                log.warning("%s; the worker goes on trying", why)
            peer.refusal = str(why)
        self._lost(peer, str(why))
        self._driver.gone(link)
        self._soon()

    def _admitted(self, link: LinkId, peer: Peer) -> None:
        log.info("worker %s takes work from %s", self._config.announce.name, peer.link.url)
        peer.is_admitted, peer.refusal = True, None
        unsent, self._unsent = self._unsent, []
        for chunk in unsent:
            self._send_output(chunk, link)
        self._driver.admitted(link)
        self._config.on_admitted.set()

    def _lost(self, peer: Peer, why: str) -> None:
        """A stream is gone: what it has not sent goes another way."""
        outbox, was_admitted = peer.outbox, peer.is_admitted
        peer.outbox, peer.is_admitted = None, False
        if outbox is None or not was_admitted:
            log.debug("a node was not reached: %s", why)
            return
        log.warning("a node is gone; what it assigned goes on until its lease ends: %s", why)
        for chunk in outbox.take_logs():
            self._send_output(chunk, None)

    # What executions tell.

    def progress(self, report: pb.Report) -> None:
        self._driver.progress(report)

    def printed(self, chunk: pb.LogChunk) -> None:
        self._send_output(chunk, self._driver.printed(key_of(chunk.attempt)))

    def ended(self, key: Key, outcome: pb.Report, stopped: Stop | None) -> None:
        del self._executions[key[0]]
        self._driver.ended(key[0], outcome, stopped, now())
        if not self._executions:
            self._idle.set()
        self._soon()

    def _send_output(self, chunk: pb.LogChunk, owner: LinkId | None) -> None:
        """To the node that its attempt belongs to, or to any other: each can keep it."""
        peer = self._peers.get(owner) if owner is not None else None
        outbox = peer.outbox if peer is not None and peer.is_admitted else None
        if outbox is None:
            outbox = next((peer.outbox for peer in self._peers.values() if peer.is_admitted), None)
        if outbox is None:
            self._unsent.append(chunk)
        else:
            outbox.log(chunk)

    # What the driver wants.

    def execute(self, given: pb.Assignment, function: str, started_at: int) -> None:
        key = key_of(given.attempt)
        transcript = Transcript(key, self._room, self.printed)
        known = self._config.functions.get(function)
        if known is None:
            why = f"no function `{function}` is registered here; register it before the worker starts"
            outcome = finished(key, pb.END_FAILED, started_at, error=why)
            self._loop.call_soon(self._missing, key, transcript, why, outcome)
            return
        grace = self._config.grace
        self._executions[key[0]] = Execution(given, known, started_at, transcript, self, self.ended, grace)

    def _missing(self, key: Key, transcript: Transcript, why: str, outcome: pb.Report) -> None:
        transcript.note(why)
        self._driver.ended(key[0], outcome, None, now())
        self._soon()

    def stop(self, run: int, why: Stop) -> None:
        execution = self._executions.get(run)
        if execution is not None:
            execution.stop(why)

    def saved(self, run: int, seq: int) -> None:
        execution = self._executions.get(run)
        if execution is not None:
            execution.cx._saved(seq)

    def say(self, to: LinkId, report: pb.Report) -> None:
        peer = self._peers.get(to)
        if peer is not None and peer.outbox is not None:
            peer.outbox.report(report)

    def announce(self, to: LinkId, holding: list[Key]) -> None:
        outbox = self._peers[to].outbox
        if outbox is not None:
            announce = pb.Announce(protocol=PROTOCOL)
            announce.MergeFrom(self._config.announce)
            announce.holding.extend(pb.Attempt(run=run, token=token) for run, token in holding)
            outbox.announce(announce)

    def heartbeat(self, to: LinkId, beat: int, holding: list[Key]) -> None:
        outbox = self._peers[to].outbox
        if outbox is None:
            return
        if self._load[0] != beat:
            self._load = (beat, self._gauge.read())
        outbox.beat(beat, holding)
        if self._load[1] is not None:
            outbox.report(self._load[1])

    def dial(self, link: LinkId, url: str) -> None:
        self._peers[link] = Peer(Link(link, url, self._config.settings, self))

    def drop(self, link: LinkId) -> None:
        peer = self._peers.pop(link)
        dropping = asyncio.ensure_future(peer.link.drop())
        self._drops.add(dropping)
        dropping.add_done_callback(self._drops.discard)

    def hang_up(self, link: LinkId) -> None:
        peer = self._peers[link]
        self._lost(peer, "it has not answered for a lease")
        peer.link.hang_up()

    # Time.

    def _soon(self) -> None:
        """Lets the driver take a turn when everything that has happened until now is told."""
        if not self._is_turning:
            self._is_turning = True
            self._loop.call_soon(self._turn, context=self._context)

    def _turn(self) -> None:
        self._is_turning = False
        moment = now()
        self._driver.turn(moment)
        if self._driver.has_drained(moment.elapsed):
            self._drained.set()
        wake = self._driver.next_wake()
        if self._timer is None or self._timer.cancelled() or self._timer.when() != wake:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(wake, self._turn, context=self._context)


def now() -> Now:
    return Now(int(time.time() * 1000), time.monotonic())
