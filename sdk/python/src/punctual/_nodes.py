"""The nodes that a worker knows: how the connection to each stands, and when each last heard the worker."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from punctual._words import LinkId
from punctual.v1 import worker_pb2 as pb

#: Nodes that are dialled. A cluster has fewer; what a longer list names beyond it is ignored.
NODES_MAX = 64
#: After this many unanswered heartbeats the worker ends the connection.
BEATS_PER_LEASE = 3
#: Nodes may not ask for a shorter interval between heartbeats.
HEARTBEAT_MIN = 0.05


class Stage(enum.Enum):
    DOWN = enum.auto()
    ANNOUNCED = enum.auto()
    ADMITTED = enum.auto()


@dataclass(slots=True)
class Node:
    url: str
    #: It was configured, so it is dialled as long as the worker lives.
    is_seed: bool
    stage: Stage = Stage.DOWN
    #: Its name, as it told it.
    name: str = ""
    #: The other link to the same node, if it is connected by that already.
    alias_of: LinkId | None = None
    #: The addresses of nodes that it told last, `host:port`.
    members: list[str] = field(default_factory=list)
    announced: float = 0.0
    #: When the newest heartbeat that it has heard was sent, and that heartbeat's number.
    heard: float | None = None
    heard_beat: int = 0
    heartbeat: float = 0.0


class Nodes:
    def __init__(self) -> None:
        self._nodes: dict[LinkId, Node] = {}
        self._last = 0

    def add(self, url: str, is_seed: bool) -> LinkId | None:
        """Adds a node, unless it is known or there are too many."""
        is_known = any(authority(node.url) == authority(url) for node in self._nodes.values())
        if is_known or len(self._nodes) >= NODES_MAX:
            return None
        self._last += 1
        self._nodes[self._last] = Node(url, is_seed)
        return self._last

    def welcomed(self, link: LinkId, welcome: pb.Welcome, now: float) -> bool:
        """A node told its name. False: it is connected by another link already."""
        node = self._nodes.get(link)
        if node is None:
            return False
        node.alias_of = next(
            (
                other
                for other, known in self._nodes.items()
                if other != link and known.name == welcome.node and known.stage != Stage.DOWN
            ),
            None,
        )
        if node.alias_of is not None:
            return False
        node.name, node.heartbeat = welcome.node, welcome.heartbeat_ms / 1000
        node.stage, node.announced = Stage.ANNOUNCED, now
        return True

    def admitted(self, link: LinkId) -> bool:
        """A node takes the worker. False: it was not asked to."""
        node = self._nodes.get(link)
        if node is None or node.stage != Stage.ANNOUNCED:
            return False
        node.stage, node.heard, node.heard_beat = Stage.ADMITTED, node.announced, 0
        return True

    def down(self, link: LinkId) -> None:
        """The connection is gone."""
        node = self._nodes.get(link)
        if node is not None:
            node.members = []
            node.stage = Stage.DOWN

    def heard_a_beat(self, link: LinkId, beat: int, sent: float) -> None:
        """A node has heard a heartbeat."""
        node = self._nodes.get(link)
        if node is not None:
            node.heard = max(sent, node.heard or 0.0)
            node.heard_beat = max(node.heard_beat, beat)

    def admitted_links(self) -> Iterator[tuple[LinkId, Node]]:
        """The nodes that give this worker work."""
        return ((link, node) for link, node in self._nodes.items() if node.stage == Stage.ADMITTED)

    def is_admitted(self, link: LinkId | None) -> bool:
        node = self._nodes.get(link) if link is not None else None
        return node is not None and node.stage == Stage.ADMITTED

    def mute(self, now: float) -> list[LinkId]:
        """The nodes that have not answered a heartbeat for a lease.

        They may hear the worker all the same, and assign what never arrives.
        """

        def is_mute(node: Node) -> bool:
            lease = max(node.heartbeat * BEATS_PER_LEASE, HEARTBEAT_MIN)
            return node.heard is not None and now >= node.heard + lease

        return [link for link, node in self.admitted_links() if is_mute(node)]

    def heard_within(self, link: LinkId, lease: float, now: float) -> bool:
        """Whether a node heard the worker within the lease. If not, it may have given up what it assigned."""
        node = self._nodes.get(link)
        return node is not None and node.heard is not None and now < node.heard + lease

    def heard(self, owner: LinkId) -> float:
        """When the node that is to settle an attempt of this owner's last heard the worker.

        A node that is gone, and that no other node lists, has lost its shards to one of them.
        """
        node = self._nodes.get(owner)
        if node is not None and node.alias_of is not None:
            node = self._nodes.get(node.alias_of, node)
        if node is not None and (node.stage != Stage.DOWN or self._is_listed(node)):
            return node.heard or 0.0
        return max((node.heard or 0.0 for node in self._nodes.values()), default=0.0)

    def listed(self, link: LinkId, addresses: Sequence[str]) -> tuple[list[tuple[LinkId, str]], list[LinkId]]:
        """A node lists the nodes of its cluster. Returns those to dial, and those to drop.

        Dropped are nodes that no node lists any more, unless they were configured.
        """
        node = self._nodes.get(link)
        if node is None:
            return [], []
        node.members = list(addresses[:NODES_MAX])
        gone = [
            other
            for other, known in self._nodes.items()
            if not known.is_seed and known.stage == Stage.DOWN and not self._is_listed(known)
        ]
        for other in gone:
            del self._nodes[other]
        scheme = node.url.partition("://")[0]
        urls = [f"{scheme}://{address}" for address in node.members]
        return [(new, url) for url in urls if (new := self.add(url, is_seed=False)) is not None], gone

    def _is_listed(self, node: Node) -> bool:
        return any(authority(node.url) in other.members for other in self._nodes.values())


def authority(url: str) -> str:
    """`host:port` of a URL."""
    return url.partition("://")[2].partition("/")[0]
