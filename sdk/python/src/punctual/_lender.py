"""The lender: which scheduling node may fill the next free slot.

A slot is lent as a credit, first to the node that waits with the highest priority, then in turn. While no node
waits, free slots are spread, so that a run that becomes due somewhere finds one there. A credit that is not used is
called back after a while, but only for a node that waits. The lender decides and sends nothing; time is an argument.

Invariant: what is lent and not used, together with what runs, is never more than there are slots.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from punctual._words import LinkId
from punctual.v1 import worker_pb2 as pb

#: How long a credit may be unused before it is called back for a node that waits.
UNUSED_MAX = 0.05
#: A node that has waited this long for a slot goes before those of higher priority.
STARVED_AFTER = 0.5


@dataclass(slots=True)
class Waits:
    priority: int
    runs: int
    #: Since when it has got nothing.
    since: float


@dataclass(slots=True)
class Borrower:
    """One node. The numbers are totals since it admitted the worker."""

    lent: int = 0
    used: int = 0
    gave_back: int = 0
    #: Up to which total was lent when, for what is not used yet; the oldest is used first.
    lent_at: deque[tuple[int, float]] = field(default_factory=deque)
    waits: Waits | None = None
    #: When it was last asked to give back.
    recalled: float | None = None

    @property
    def unused(self) -> int:
        return self.lent - self.used - self.gave_back

    @property
    def lacks(self) -> int:
        """How many slots it could fill beyond those that it has."""
        return max(0, self.waits.runs - self.unused) if self.waits else 0

    def lend(self, credits: int, now: float) -> None:
        self.lent += credits
        if self.lent_at and self.lent_at[-1][1] == now:
            self.lent_at.pop()
        self.lent_at.append((self.lent, now))
        if self.waits:
            self.waits.since = now

    def forget_used(self) -> None:
        gone = self.used + self.gave_back
        while self.lent_at and self.lent_at[0][0] <= gone:
            self.lent_at.popleft()

    def unused_since(self, before: float) -> int:
        """Credits that have been unused since `before`."""
        old = 0
        for total, at in self.lent_at:
            if at > before:
                break
            old = total - self.used - self.gave_back
        return old


class Lender:
    def __init__(self) -> None:
        self._nodes: dict[LinkId, Borrower] = {}
        #: The node that got the last slot: it is the next one's turn.
        self._last = -1
        self._draining = False

    def joined(self, node: LinkId) -> None:
        """A node admitted the worker, perhaps again: it has no credit."""
        self._nodes[node] = Borrower()

    def left(self, node: LinkId) -> None:
        """The link to a node is gone, and its credits with it."""
        self._nodes.pop(node, None)

    def drain(self, on: bool) -> None:
        """Nothing is lent any more, and all that is unused is called back; or slots are lent again."""
        self._draining = on

    def used(self, node: LinkId) -> None:
        known = self._nodes.get(node)
        if known is not None and known.unused > 0:
            known.used += 1
            known.forget_used()

    def gave_back(self, node: LinkId, total: int) -> None:
        """All that a node has given back since it joined."""
        known = self._nodes.get(node)
        if known is not None:
            known.gave_back = min(max(total, known.gave_back), known.lent - known.used)
            known.recalled = None
            known.forget_used()

    def waits(self, node: LinkId, priority: int | None, runs: int, now: float) -> None:
        """What waits at a node for a slot of this worker. Without a priority nothing waits."""
        known = self._nodes.get(node)
        if known is not None:
            since = known.waits.since if known.waits else now
            known.waits = None if priority is None else Waits(priority, runs, since)

    def lend(self, room: int, now: float) -> list[tuple[LinkId, pb.Report]]:
        """Lends the free slots (`room` slots have no attempt), and recalls unused credits that other nodes wait for."""
        words = []
        if not self._draining:
            free = room - self.unused
            lent = self._share_out(free, now) if free > 0 else ()
            words = [(node, pb.Report(lent=pb.Lent(total=self._nodes[node].lent))) for node in lent]
        if self._draining or len(self._nodes) > 1:
            words += self._recall(now)
        return words

    def next_wake(self) -> float | None:
        """When to look again: when a credit that another node waits for has been unused for `UNUSED_MAX`."""
        if not self._draining and (len(self._nodes) < 2 or self._lacking == 0):
            return None
        ripe = [
            max(node.lent_at[0][1], node.recalled or 0.0) + UNUSED_MAX for node in self._nodes.values() if node.lent_at
        ]
        return min(ripe, default=None)

    @property
    def unused(self) -> int:
        """Credits that the nodes have not used yet."""
        return sum(node.unused for node in self._nodes.values())

    @property
    def _lacking(self) -> int:
        return sum(node.lacks for node in self._nodes.values())

    def _share_out(self, free: int, now: float) -> set[LinkId]:
        """Lends so many credits, and returns the nodes that got some."""
        if len(self._nodes) == 1:
            (only,) = self._nodes
            self._nodes[only].lend(free, now)
            return {only}
        lent = set()
        while free > 0 and (node := self._next(now)) is not None:
            self._nodes[node].lend(1, now)
            self._last = node
            lent.add(node)
            free -= 1
        return lent

    def _next(self, now: float) -> LinkId | None:
        """The node that gets the next credit.

        First nodes that have waited too long, then waiting nodes by priority, then the one with the fewest credits.
        """

        def rank(node: Borrower) -> tuple[int, int]:
            if node.waits is not None and node.lacks > 0:
                is_starved = now - node.waits.since >= STARVED_AFTER
                return (3, 0) if is_starved else (2, node.waits.priority)
            return (1, -node.unused)

        best = max((rank(node) for node in self._nodes.values()), default=None)
        equals = sorted(link for link, node in self._nodes.items() if rank(node) == best)
        return next((link for link in equals if link > self._last), equals[0] if equals else None)

    def _recall(self, now: float) -> list[tuple[LinkId, pb.Report]]:
        """Calls unused credits back. A node that did not answer within `UNUSED_MAX` is asked again."""
        words = []
        wanted = None if self._draining else self._lacking
        old = now - UNUSED_MAX
        for link, node in sorted(self._nodes.items()):
            unused = node.unused if self._draining else node.unused_since(old)
            credits = unused if wanted is None else min(unused, wanted)
            if credits > 0 and (node.recalled is None or node.recalled <= old):
                node.recalled = now
                if wanted is not None:
                    wanted -= credits
                words.append((link, pb.Report(recall=pb.Recall(credits=credits))))
        return words
