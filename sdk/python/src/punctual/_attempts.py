"""The attempts of a worker: those that wait for a slot, those that run, and those whose outcome is not acknowledged.

Two rules hold everything else: an attempt starts once, however often it is assigned; and of one run only one attempt
runs at a time, so a newer token waits until the older attempt has ended.

    assign --> waiting --> running --ended--> ended --acknowledge--> settled (remembered for a while)
                  |           | newer token: stopped, its outcome is dropped
                  +--cancel---+--------------> ended
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from punctual._words import Key, LinkId, Now, Stop, finished
from punctual.v1 import worker_pb2 as pb

log = logging.getLogger("punctual")

#: Attempts of all stages. Beyond it an assignment is dropped, and its node offers it elsewhere when its lease ends.
ATTEMPTS_MAX = 100_000
#: With more attempts than this no slot is lent: nodes that do not acknowledge outcomes get no room for more.
UNSETTLED_MAX = ATTEMPTS_MAX // 2
#: Bytes of outcomes without an acknowledgement. Beyond it nothing starts that could add to them.
OUTCOME_BYTES_MAX = 32 * 1024 * 1024
#: Settled attempts that are remembered, so that an assignment that arrives twice starts nothing.
SETTLED_MAX = 65_536


@dataclass(slots=True)
class Ended:
    """An outcome that no node has acknowledged."""

    outcome: pb.Report
    #: It waits since then until its output is kept. `None` means that it was sent.
    held_since: float | None
    #: It was last sent after this heartbeat.
    sent_after: int

    @property
    def size(self) -> int:
        return len(self.outcome.finished.output) + len(self.outcome.finished.error)


@dataclass(slots=True)
class Attempt:
    token: int
    #: The node that assigned it last, which is the one to settle it.
    owner: LinkId
    #: When it was last assigned: the owner knew then that this worker lives.
    since: float
    lease: float
    #: Waiting: the assignment. Running: when it started, in milliseconds since 1970.
    stage: pb.Assignment | int | Ended
    #: Chunks of its output that no node has kept yet.
    unkept: int = 0


@dataclass(slots=True)
class Running:
    token: int
    #: Why it was told to stop. `None` means that it was not.
    stopped: Stop | None = None


#: A report and the node to tell.
Told = tuple[LinkId, pb.Report]


class Attempts:
    def __init__(self, slots: int) -> None:
        self._slots = slots
        #: The newest attempt of each run.
        self._newest: dict[int, Attempt] = {}
        #: The attempt of each run that is executed. When a newer one waits for its end, this is the older one.
        self._running: dict[int, Running] = {}
        #: Runs that wait for a slot, or for the end of their older attempt.
        self._queue: deque[int] = deque()
        #: The last attempts that were settled, oldest first.
        self._settled: OrderedDict[int, int] = OrderedDict()
        self._outcome_bytes = 0
        self._stops: list[tuple[int, Stop]] = []

    def is_new(self, key: Key) -> bool:
        """Whether the worker has never had this attempt or a newer one of its run."""
        run, token = key
        known = self._newest.get(run)
        return not self._is_settled(run, token) and (known is None or known.token < token)

    def offered_again(self, given: pb.Assignment, owner: LinkId, now: float) -> None:
        """Notes that another leader of the shard offers an attempt again, which this worker may have."""
        known = self._newest.get(given.attempt.run)
        if known is not None and known.token == given.attempt.token:
            known.owner, known.since, known.lease = owner, now, given.lease_ms / 1000

    def assign(self, given: pb.Assignment, owner: LinkId, now: float) -> pb.Assignment | pb.Report | None:
        """Notes who assigned an attempt.

        Returns the assignment if it may start at once, or the outcome if it has ended already and its node does not
        know that.
        """
        run, token = given.attempt.run, given.attempt.token
        known = self._newest.get(run)
        if known is not None and known.token == token:
            is_sent = isinstance(known.stage, Ended) and known.stage.held_since is None
            return known.stage.outcome if isinstance(known.stage, Ended) and is_sent else None
        if known is not None and known.token > token:
            return None
        if known is not None:
            self._supersede(run)
        elif self._is_settled(run, token):
            return None
        elif len(self._newest) >= ATTEMPTS_MAX:
            log.warning("this worker has too many attempts: the assignment of run %s is dropped", run)
            return None
        starts = self._has_free_slot() and not self._queue and run not in self._running
        if not starts:
            self._queue.append(run)
        self._newest[run] = Attempt(token, owner, now, given.lease_ms / 1000, 0 if starts else given)
        return given if starts else None

    def next_ready(self) -> pb.Assignment | None:
        """The next waiting attempt that may start now. It is still to be started."""
        if not self._queue or not self._has_free_slot():
            return None
        run = next((run for run in self._queue if run not in self._running), None)
        if run is None:
            return None
        self._queue.remove(run)
        attempt = self._newest[run]
        given, attempt.stage = attempt.stage, 0
        assert isinstance(given, pb.Assignment), f"run {run} waits for a slot and is {given!r}"
        return given

    def start(self, run: int, now: Now) -> None:
        """The newest attempt of a run takes a slot."""
        attempt = self._newest[run]
        assert run not in self._running, f"two attempts of run {run} are executed"
        attempt.stage = now.wall
        self._running[run] = Running(attempt.token)

    def room(self) -> int:
        """Slots that may be lent: no attempt runs in them or waits for them."""
        if self._outcome_bytes >= OUTCOME_BYTES_MAX:
            return 0
        free = self._slots - len(self._running) - len(self._queue)
        return max(0, min(free, UNSETTLED_MAX - len(self._newest)))

    def ended(self, run: int, outcome: pb.Report, now: float, beat: int) -> Told | None:
        """An execution has ended.

        `None` means that a newer attempt replaced this one, or that the outcome waits until its output is kept.
        """
        running = self._running.pop(run, None)
        attempt = self._newest.get(run)
        if running is None or attempt is None or attempt.token != running.token:
            return None
        held_since = now if attempt.unkept else None
        told = self._keep(run, outcome, held_since, beat)
        return told if held_since is None else None

    def ended_at_once(self, run: int, outcome: pb.Report, beat: int) -> Told:
        """The newest attempt of a run is over without having been executed."""
        return self._keep(run, outcome, None, beat)

    def cancel(self, key: Key, why: Stop, link: LinkId, now: Now, beat: int) -> Told | None:
        """Cancels an attempt. An attempt that has not started never does: its outcome is returned."""
        run, token = key
        known = self._newest.get(run)
        if known is None:
            if self._is_settled(run, token):
                return None
        elif known.token > token:
            return None
        elif known.token == token and not isinstance(known.stage, pb.Assignment):
            if not isinstance(known.stage, Ended):
                self._stop(run, why)
            return None
        else:
            self._supersede(run)
        self._newest[run] = Attempt(token, link, now.elapsed, 0.0, now.wall)
        outcome = finished(key, pb.END_FAILED, now.wall, error=f"{why} before it started")
        return self.ended_at_once(run, outcome, beat)

    def acknowledge(self, key: Key) -> None:
        run, token = key
        known = self._newest.get(run)
        if known is not None and known.token == token and isinstance(known.stage, Ended):
            self._remove(run)
            self._settle(run, token)

    def give_up(self, now: float, heard: Callable[[LinkId], float]) -> list[Key]:
        """Stops every attempt whose owner has not heard this worker for its lease.

        The owner has given it up by now, and may have started it elsewhere. Outcomes are kept; they may be in time.
        """
        overdue = sorted(
            (run, attempt.token)
            for run, attempt in self._newest.items()
            if not isinstance(attempt.stage, Ended) and max(heard(attempt.owner), attempt.since) + attempt.lease <= now
        )
        for run, token in overdue:
            self._remove(run)
            self._stop(run, Stop.UNHEARD)
            self._settle(run, token)
        return overdue

    def decline_waiting(self) -> list[Key]:
        """Gives back what has not started: another worker may take it."""
        waiting = [(run, self._newest[run].token) for run in self._queue]
        for run, _ in waiting:
            self._remove(run)
        return waiting

    def stop_all(self, why: Stop) -> None:
        for run in sorted(self._running):
            self._stop(run, why)

    def take_stops(self) -> list[tuple[int, Stop]]:
        """The executions that are to be stopped since this was last asked."""
        stops, self._stops = self._stops, []
        return stops

    def printed(self, key: Key) -> None:
        """A chunk of output is on its way to a node."""
        attempt = self._newest.get(key[0])
        if attempt is not None and attempt.token == key[1]:
            attempt.unkept += 1

    def output_kept(self, key: Key, beat: int) -> Told | None:
        """A chunk is kept, or refused for good. Returns the outcome that waited for it."""
        attempt = self._newest.get(key[0])
        if attempt is None or attempt.token != key[1]:
            return None
        attempt.unkept = max(0, attempt.unkept - 1)
        return self._release(attempt, beat) if attempt.unkept == 0 else None

    def release_held(self, before: float, beat: int) -> list[Told]:
        """The outcomes that have waited for their output since `before` go without it."""
        late = [
            attempt
            for attempt in self._newest.values()
            if isinstance(attempt.stage, Ended)
            and attempt.stage.held_since is not None
            and attempt.stage.held_since <= before
        ]
        return [told for attempt in late if (told := self._release(attempt, beat)) is not None]

    def needs_watching(self) -> bool:
        """Whether a lease or an outcome that waits for its output has to be watched."""
        return any(
            not isinstance(attempt.stage, Ended) or attempt.stage.held_since is not None
            for attempt in self._newest.values()
        )

    def unacknowledged(self, before: int | None, beat: int) -> list[tuple[int, pb.Report]]:
        """Outcomes to send again, each with the heartbeat after which it was last sent.

        `before` is a heartbeat: only those that were sent before it. `None` means all.
        """
        due = []
        for attempt in self._newest.values():
            stage = attempt.stage
            if not isinstance(stage, Ended) or stage.held_since is not None:
                continue
            if before is None or stage.sent_after < before:
                due.append((stage.sent_after, stage.outcome))
                stage.sent_after = beat
        return due

    def starts(self, owner: LinkId) -> list[tuple[Key, int]]:
        """The starts of what is executed for a node, which may have missed them."""
        return [
            ((run, attempt.token), attempt.stage)
            for run, attempt in self._newest.items()
            if attempt.owner == owner and isinstance(attempt.stage, int)
        ]

    def owner(self, key: Key) -> LinkId | None:
        attempt = self._newest.get(key[0])
        return attempt.owner if attempt is not None and attempt.token == key[1] else None

    def is_empty(self) -> bool:
        return not self._newest

    def holding(self) -> list[Key]:
        """Every attempt that is not settled."""
        return [(run, attempt.token) for run, attempt in self._newest.items()]

    def _has_free_slot(self) -> bool:
        return len(self._running) < self._slots and self._outcome_bytes < OUTCOME_BYTES_MAX

    def _keep(self, run: int, outcome: pb.Report, held_since: float | None, beat: int) -> Told:
        """Keeps an outcome until it is acknowledged."""
        attempt = self._newest[run]
        attempt.stage = Ended(outcome, held_since, beat)
        self._outcome_bytes += attempt.stage.size
        return attempt.owner, outcome

    def _release(self, attempt: Attempt, beat: int) -> Told | None:
        """The outcome that waited for its output."""
        stage = attempt.stage
        if not isinstance(stage, Ended) or stage.held_since is None:
            return None
        stage.held_since, stage.sent_after = None, beat
        return attempt.owner, stage.outcome

    def _remove(self, run: int) -> None:
        stage = self._newest.pop(run).stage
        if isinstance(stage, Ended):
            self._outcome_bytes -= stage.size
        elif isinstance(stage, pb.Assignment):
            self._queue.remove(run)

    def _supersede(self, run: int) -> None:
        """Forgets the newest attempt of a run in favour of a newer one, and stops the execution of an older one."""
        self._remove(run)
        self._stop(run, Stop.SUPERSEDED)

    def _stop(self, run: int, why: Stop) -> None:
        """The first reason to stop is the one that counts, unless a later one leaves no grace period."""
        running = self._running.get(run)
        if running is None:
            return
        if running.stopped is None or (why.is_at_once and not running.stopped.is_at_once):
            running.stopped = why
            self._stops.append((run, why))

    def _is_settled(self, run: int, token: int) -> bool:
        """Whether this attempt, or a newer one of its run, is settled."""
        return self._settled.get(run, -1) >= token

    def _settle(self, run: int, token: int) -> None:
        self._settled.pop(run, None)
        self._settled[run] = token
        if len(self._settled) > SETTLED_MAX:
            self._settled.popitem(last=False)
