"""The worker as a state machine without I/O: what happens is told to it, and what is to be done goes to its `Effects`.

It owns everything that a worker has to remember: its attempts and which node each belongs to (`_attempts`), the nodes
and when they last heard the worker (`_nodes`), and the slots that it lent to them (`_lender`). Time is an argument.

The rules:
- A (run, token) starts once.
- An outcome is kept, and sent again, until a node acknowledges it.
- An attempt is stopped when its node has not heard the worker for a lease: the node has given it up by then, and may
  have started it elsewhere.
- An assignment uses a credit once, at the node that decided it.
- A worker that drains lends nothing, and yields the attempts that it stops: their runs go on elsewhere.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from punctual._attempts import Attempts, Told
from punctual._lender import Lender
from punctual._nodes import HEARTBEAT_MIN, Nodes
from punctual._words import Key, LinkId, Now, Stop, finished
from punctual.v1 import worker_pb2 as pb

log = logging.getLogger("punctual")

#: A third of the attempt lease of 15 s: two heartbeats may be lost.
HEARTBEAT = 5.0
#: How often leases and outcomes that wait for their output are looked at, while there are any.
PULSE = 0.1
#: How long an outcome waits for its output to be kept.
OUTPUT_WAIT_MAX = 5.0
#: Heartbeats whose answer is still waited for.
BEATS_MAX = 64


class Effects(Protocol):
    """What the driver wants to be done. None of these calls the driver."""

    def execute(self, given: pb.Assignment, function: str, started_at: int) -> None: ...

    def stop(self, run: int, why: Stop) -> None: ...

    def saved(self, run: int, seq: int) -> None:
        """The checkpoint of the report with this number is stored."""

    def say(self, to: LinkId, report: pb.Report) -> None: ...

    def announce(self, to: LinkId, holding: list[Key]) -> None: ...

    def heartbeat(self, to: LinkId, beat: int, holding: list[Key]) -> None: ...

    def dial(self, link: LinkId, url: str) -> None: ...

    def drop(self, link: LinkId) -> None:
        """Dial this node no more."""

    def hang_up(self, link: LinkId) -> None:
        """This node does not answer: close the connection."""


class Driver:
    def __init__(self, slots: int, effects: Effects, drain_time: float = 0.0) -> None:
        """`drain_time` is how long attempts may take to end when a node drains the worker."""
        self._effects = effects
        self._attempts = Attempts(slots)
        self._nodes = Nodes()
        self._lender = Lender()
        self._heartbeat = HEARTBEAT
        self._next_beat = 0.0
        #: When leases and held outcomes are checked next. `None` means there is nothing to check.
        self._next_pulse: float | None = None
        #: Heartbeats that were sent: their number and when.
        self._beats: OrderedDict[int, float] = OrderedDict()
        self._beat = 0
        self._drain_time = drain_time
        #: Whether a node has drained it.
        self._is_drained = False
        #: When a drained worker stops its attempts. `None` means that it has, or is not drained.
        self._yield_at: float | None = None
        #: When a worker that is to end stops its attempts. `None` means that it is not to end.
        self._drain_until: float | None = None
        self._is_stopping = False

    def add_node(self, url: str) -> None:
        """Adds a node that is dialled as long as the worker lives."""
        link = self._nodes.add(url, is_seed=True)
        if link is not None:
            self._effects.dial(link, url)

    def welcomed(self, link: LinkId, welcome: pb.Welcome, now: Now) -> bool:
        """A node was dialled. False: it is not wanted, because it is connected already or the worker drains."""
        if self._drain_until is not None or not self._nodes.welcomed(link, welcome, now.elapsed):
            return False
        self._heartbeat = min(self._heartbeat, max(welcome.heartbeat_ms / 1000, HEARTBEAT_MIN))
        self._next_beat = min(self._next_beat, now.elapsed + self._heartbeat)
        self._effects.announce(link, self._attempts.holding())
        self.members(link, welcome.nodes.addresses)
        return True

    def admitted(self, link: LinkId) -> None:
        """A node takes the worker."""
        if not self._nodes.admitted(link):
            return
        self._lender.joined(link)
        if self._is_drained or self._drain_until is not None:
            self._effects.say(link, draining(True))
        for key, at in self._attempts.starts(link):
            self._effects.say(link, started(key, at))
        # It may be the one that can settle what no node has acknowledged.
        self._say_all_to(link)

    def heard(self, link: LinkId, beat: int) -> None:
        """A node has heard this heartbeat."""
        sent = self._beats.get(beat)
        if sent is not None:
            self._nodes.heard_a_beat(link, beat, sent)

    def members(self, link: LinkId, addresses: Sequence[str]) -> None:
        """A node lists the addresses of its cluster."""
        dialled, dropped = self._nodes.listed(link, addresses)
        for gone in dropped:
            self._effects.drop(gone)
        for new, url in dialled:
            self._effects.dial(new, url)

    def gone(self, link: LinkId) -> None:
        """The connection to a node is gone."""
        self._lender.left(link)
        self._nodes.down(link)

    def _hang_up(self, link: LinkId) -> None:
        self._effects.hang_up(link)
        self.gone(link)

    def ordered(self, link: LinkId, orders: Iterable[pb.Order], now: Now) -> None:
        for order in orders:
            # What arrives after the end of a connection is too late: it may run elsewhere.
            if self._nodes.is_admitted(link):
                self._obey(link, order, now)
        self._start_ready(now)
        self._watch(now.elapsed)

    def progress(self, report: pb.Report) -> None:
        """An execution tells how far it is."""
        key = (report.progress.attempt.run, report.progress.attempt.token)
        owner = self._attempts.owner(key)
        if owner is not None:
            self._tell(owner, report)

    def ended(self, run: int, outcome: pb.Report, stopped: Stop | None, now: Now) -> None:
        """An execution has ended. `stopped` says why the worker stopped it."""
        # It did nothing wrong. Reported as failed, it would use up one of its attempts.
        if stopped is not None and stopped.is_yield:
            outcome.finished.end = pb.END_YIELDED
        self._tell_owner(self._attempts.ended(run, outcome, now.elapsed, self._beat))
        self._start_ready(now)
        self._watch(now.elapsed)

    def printed(self, key: Key) -> LinkId | None:
        """A chunk of output is on its way. Returns the node that it goes to; `None` means any."""
        self._attempts.printed(key)
        return self._attempts.owner(key)

    def output_kept(self, key: Key) -> None:
        """A chunk of output is kept, or refused for good."""
        self._tell_owner(self._attempts.output_kept(key, self._beat))

    def drain(self, time: float, now: Now) -> None:
        """The worker is to end: take nothing more, and finish what runs within this time."""
        self._lender.drain(True)
        self._drain_until = now.elapsed + time
        self._tell(None, draining(True))

    def stop(self) -> None:
        """Take nothing more, and stop what runs."""
        self._is_stopping = True
        self._lender.drain(True)
        self._decline_waiting()
        self._attempts.stop_all(Stop.SHUTDOWN)
        for told in self._attempts.release_held(float("inf"), self._beat):
            self._tell_owner(told)

    def turn(self, now: Now) -> None:
        """Does what follows from the inputs since the last turn, and from the time that has passed."""
        self._look_at_the_clock(now.elapsed)
        for to, report in self._lender.lend(self._attempts.room(), now.elapsed):
            self._effects.say(to, report)
        for run, why in self._attempts.take_stops():
            self._effects.stop(run, why)

    def next_wake(self) -> float:
        """When the next turn is due if nothing happens before."""
        drained = None if self._is_stopping else self._drain_until
        wakes = [self._next_beat, self._next_pulse, self._lender.next_wake(), drained, self._yield_at]
        return min(wake for wake in wakes if wake is not None)

    def has_drained(self, now: float) -> bool:
        """Whether a worker that drains has finished, or its time is over."""
        if self._drain_until is None:
            return False
        return now >= self._drain_until or (self._attempts.is_empty() and self._lender.unused == 0)

    def _obey(self, link: LinkId, order: pb.Order, now: Now) -> None:
        match order.WhichOneof("said"):
            case "assign":
                self._assigned(link, order.assign, now)
            case "acknowledge":
                self._attempts.acknowledge((order.acknowledge.run, order.acknowledge.token))
            case "cancel":
                key, why = (order.cancel.attempt.run, order.cancel.attempt.token), Stop.of(order.cancel.cause)
                log.debug("run %s: asked to stop its attempt: %s", key[0], why)
                self._tell_owner(self._attempts.cancel(key, why, link, now, self._beat))
            case "saved":
                key = (order.saved.attempt.run, order.saved.attempt.token)
                if self._attempts.owner(key) is not None:
                    self._effects.saved(key[0], order.saved.seq)
            case "resend":
                self._say_all_to(link)
            case "gave_back":
                self._lender.gave_back(link, order.gave_back.total)
            case "waiting":
                waiting = order.waiting
                priority = waiting.priority if waiting.HasField("priority") else None
                self._lender.waits(link, priority, waiting.runs, now.elapsed)
            case "drain":
                self._told_to_drain(order.drain.on, now.elapsed)
            case _:
                log.warning("a node ordered what this worker does not understand; is the node newer?")

    def _told_to_drain(self, on: bool, now: float) -> None:
        """A node says whether the worker is to take work."""
        if self._is_stopping or self._drain_until is not None or self._is_drained == on:
            return
        log.info("drained: the worker takes nothing more" if on else "the worker takes work again")
        self._is_drained = on
        self._lender.drain(on)
        self._yield_at = now + self._drain_time if on else None
        self._tell(None, draining(on))
        if on:
            self._decline_waiting()

    def _decline_waiting(self) -> None:
        for key in self._attempts.decline_waiting():
            self._tell(None, declined(key))

    def _assigned(self, link: LinkId, given: pb.Assignment, now: Now) -> None:
        # The node that decided an assignment has used a credit, even if the assignment comes too late, or another node
        # has offered it meanwhile. An offer that is made again uses none.
        if not given.again:
            self._lender.used(link)
        key = (given.attempt.run, given.attempt.token)
        if (self._is_stopping or self._is_drained) and self._attempts.is_new(key):
            self._effects.say(link, declined(key))
            return
        if not self._nodes.heard_within(link, given.lease_ms / 1000, now.elapsed):
            log.warning("run %s: its assignment came after its lease, and is not started", given.attempt.run)
            # The node offers its attempts again when the worker joins.
            self._hang_up(link)
            return
        # The first offer may come late, after another leader has made its own: then it changes nothing.
        if given.again:
            self._attempts.offered_again(given, link, now.elapsed)
        if self._is_stopping:
            return
        follows = self._attempts.assign(given, link, now.elapsed)
        if isinstance(follows, pb.Assignment):
            self._start(follows, now)
        elif follows is not None:
            self._effects.say(link, follows)

    def _start_ready(self, now: Now) -> None:
        while not self._is_stopping and (given := self._attempts.next_ready()) is not None:
            self._start(given, now)

    def _start(self, given: pb.Assignment, now: Now) -> None:
        key = (given.attempt.run, given.attempt.token)
        kind, name = task(given.task)
        if kind != "function":
            outcome = finished(key, pb.END_FAILED, now.wall, error=f"this worker takes no {kind} tasks")
            return self._tell_owner(self._attempts.ended_at_once(key[0], outcome, self._beat))
        self._attempts.start(key[0], now)
        self._tell(self._attempts.owner(key), started(key, now.wall))
        return self._effects.execute(given, name, now.wall)

    def _look_at_the_clock(self, now: float) -> None:
        if self._yield_at is not None and self._yield_at <= now:
            self._yield_at = None
            self._attempts.stop_all(Stop.DRAINED)
        beats = now >= self._next_beat
        if beats:
            self._next_beat = now + self._heartbeat
            self._send_heartbeat(now)
        if not beats and (self._next_pulse is None or self._next_pulse > now):
            return
        self._next_pulse = None
        for told in self._attempts.release_held(now - OUTPUT_WAIT_MAX, self._beat):
            self._tell_owner(told)
        for run, _ in self._attempts.give_up(now, self._nodes.heard):
            log.warning("run %s: no node has heard this worker for a lease: the attempt is stopped", run)
        for link in self._nodes.mute(now):
            self._hang_up(link)
        self._watch(now)

    def _watch(self, now: float) -> None:
        """Schedules the next check of leases and held outcomes, if there are any."""
        if self._next_pulse is None and self._attempts.needs_watching():
            self._next_pulse = now + PULSE

    def _send_heartbeat(self, now: float) -> None:
        self._beat += 1
        self._beats[self._beat] = now
        if len(self._beats) > BEATS_MAX:
            self._beats.popitem(last=False)
        # A node that received a heartbeat after the outcome has the outcome, but does not settle it; another node may.
        overdue = self._attempts.unacknowledged(self._beat - 1, self._beat)
        holding = self._attempts.holding()
        for link, node in self._nodes.admitted_links():
            for sent, outcome in overdue:
                if sent < node.heard_beat:
                    self._effects.say(link, outcome)
            self._effects.heartbeat(link, self._beat, holding)

    def _say_all_to(self, link: LinkId) -> None:
        """Every outcome without an acknowledgement, and a heartbeat."""
        for _, outcome in self._attempts.unacknowledged(None, self._beat):
            self._effects.say(link, outcome)
        self._effects.heartbeat(link, self._beat, self._attempts.holding())

    def _tell_owner(self, told: Told | None) -> None:
        if told is not None:
            self._tell(*told)

    def _tell(self, owner: LinkId | None, report: pb.Report) -> None:
        """To the node that assigned it; if that is not connected, to every node that is."""
        if owner is not None and self._nodes.is_admitted(owner):
            return self._effects.say(owner, report)
        for link, _ in self._nodes.admitted_links():
            self._effects.say(link, report)
        return None


def started(key: Key, at: int) -> pb.Report:
    return pb.Report(started=pb.Started(attempt=pb.Attempt(run=key[0], token=key[1]), at=at))


def declined(key: Key) -> pb.Report:
    return pb.Report(declined=pb.Declined(attempt=pb.Attempt(run=key[0], token=key[1])))


def draining(on: bool) -> pb.Report:
    return pb.Report(draining=pb.Draining(on=on))


@lru_cache(maxsize=1024)
def task(text: bytes) -> tuple[str, str]:
    """The kind of a task and, of a function, its name. Consecutive runs of a job have the same text."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or len(value) != 1:
        return "unreadable", ""
    ((kind, what),) = value.items()
    return str(kind), what if isinstance(what, str) else ""
