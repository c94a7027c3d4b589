"""The rules of a worker, on the driver alone: time is an argument, and nodes are lists of what was said to them."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from punctual._driver import Driver
from punctual._outbox import Outbox
from punctual._output import CUT_MARK, Lines
from punctual._words import LINE_BYTES_MAX, Key, LinkId, Now, Stop, finished, keep_end
from punctual.v1 import worker_pb2 as pb

A, B = 1, 2


class World:
    """A driver, its nodes and its executions, at a time that the test moves."""

    def __init__(self, slots: int = 2, nodes: int = 1) -> None:
        self.time = 1000.0
        self.said: dict[LinkId, list[pb.Report]] = defaultdict(list)
        self.beats: dict[LinkId, list[tuple[int, list[Key]]]] = defaultdict(list)
        self.announced: dict[LinkId, list[Key]] = {}
        self.executed: list[Key] = []
        self.stopped: list[tuple[int, Stop]] = []
        self.stored: list[tuple[int, int]] = []
        self.dialled: dict[LinkId, str] = {}
        self.dropped: list[LinkId] = []
        self.hung_up: list[LinkId] = []
        self.driver = Driver(slots, self, drain_time=5)
        for number in range(nodes):
            self.driver.add_node(f"http://node-{number + 1}:7400")
            self.connect(number + 1)
        self.turn()

    # Effects.

    def execute(self, given: pb.Assignment, function: str, started_at: int) -> None:
        self.executed.append((given.attempt.run, given.attempt.token))

    def stop(self, run: int, why: Stop) -> None:
        self.stopped.append((run, why))

    def saved(self, run: int, seq: int) -> None:
        self.stored.append((run, seq))

    def say(self, to: LinkId, report: pb.Report) -> None:
        self.said[to].append(report)

    def announce(self, to: LinkId, holding: list[Key]) -> None:
        self.announced[to] = holding

    def heartbeat(self, to: LinkId, beat: int, holding: list[Key]) -> None:
        self.beats[to].append((beat, holding))

    def dial(self, link: LinkId, url: str) -> None:
        self.dialled[link] = url

    def drop(self, link: LinkId) -> None:
        self.dropped.append(link)

    def hang_up(self, link: LinkId) -> None:
        self.hung_up.append(link)

    # What happens.

    @property
    def now(self) -> Now:
        return Now(int(self.time * 1000), self.time)

    def connect(self, link: LinkId, members: tuple[str, ...] = ()) -> bool:
        welcome = pb.Welcome(node=f"node {link}", heartbeat_ms=5000, nodes=pb.Nodes(addresses=members))
        wanted = self.driver.welcomed(link, welcome, self.now)
        if wanted:
            self.driver.admitted(link)
        self.turn()
        return wanted

    def order(self, link: LinkId, *orders: pb.Order) -> None:
        self.driver.ordered(link, orders, self.now)
        self.turn()

    def assign(self, key: Key, link: LinkId = A, *, again: bool = False, task: str = '{"function": "f"}') -> None:
        given = pb.Assignment(attempt=attempt(key), task=task.encode(), lease_ms=15_000, again=again)
        self.order(link, pb.Order(assign=given))

    def end(self, key: Key, stopped: Stop | None = None) -> None:
        self.driver.ended(key[0], finished(key, pb.END_SUCCEEDED, 0, output="done"), stopped, self.now)
        self.turn()

    def pass_time(self, seconds: float, hearing: tuple[LinkId, ...] = (A,)) -> None:
        """Time passes, and these nodes hear the heartbeats."""
        until = self.time + seconds
        while self.time < until:
            self.time = min(until, max(self.driver.next_wake(), self.time + 0.001))
            self.turn()
            for link in hearing:
                for beat, _ in self.beats[link][-1:]:
                    self.driver.heard(link, beat)

    def turn(self) -> None:
        self.driver.turn(self.now)

    def finishes(self, link: LinkId = A) -> list[Key]:
        ends = (report.finished.attempt for report in self.said[link] if report.HasField("finished"))
        return [(end.run, end.token) for end in ends]

    def ends(self, link: LinkId = A) -> list[pb.End]:
        return [report.finished.end for report in self.said[link] if report.HasField("finished")]

    def declines(self, link: LinkId = A) -> list[int]:
        return [report.declined.attempt.run for report in self.said[link] if report.HasField("declined")]

    def drainings(self, link: LinkId = A) -> list[bool]:
        return [report.draining.on for report in self.said[link] if report.HasField("draining")]

    def lent(self, link: LinkId = A) -> int:
        return max((report.lent.total for report in self.said[link] if report.HasField("lent")), default=0)


def attempt(key: Key) -> pb.Attempt:
    return pb.Attempt(run=key[0], token=key[1])


def acknowledge(key: Key) -> pb.Order:
    return pb.Order(acknowledge=attempt(key))


def cancel(key: Key, cause: pb.Cause = pb.CAUSE_USER) -> pb.Order:
    return pb.Order(cancel=pb.Cancel(attempt=attempt(key), cause=cause))


def drain(on: bool) -> pb.Order:
    return pb.Order(drain=pb.Drain(on=on))


def test_a_token_starts_once() -> None:
    world = World()
    for _ in range(3):
        world.assign((1, 1), again=True)
    world.end((1, 1))
    world.assign((1, 1), again=True)
    assert world.finishes() == [(1, 1), (1, 1)], "an assignment after the end is answered with the outcome"
    world.order(A, acknowledge((1, 1)))
    world.assign((1, 1), again=True)
    assert world.executed == [(1, 1)]


def test_a_newer_token_waits_for_the_end_of_the_older_attempt() -> None:
    world = World()
    world.assign((1, 1))
    world.assign((1, 2))
    assert world.executed == [(1, 1)] and world.stopped == [(1, Stop.SUPERSEDED)]
    world.end((1, 1))
    assert world.executed == [(1, 1), (1, 2)] and world.finishes() == []
    world.assign((1, 1))
    assert world.executed[-1] == (1, 2)


def test_an_outcome_is_sent_until_it_is_acknowledged() -> None:
    world = World()
    world.assign((1, 1))
    world.driver.gone(A)
    world.end((1, 1))
    assert world.finishes() == [], "no node is connected"
    world.pass_time(60)
    world.connect(A)
    assert world.announced[A] == [(1, 1)] and world.finishes() == [(1, 1)]
    world.order(A, pb.Order(resend=pb.Resend()))
    assert len(world.finishes()) == 2
    world.pass_time(11)
    assert len(world.finishes()) > 2, "a node that has heard a heartbeat since, and does not settle it, is told again"
    world.order(A, acknowledge((1, 1)))
    world.driver.gone(A)
    count = len(world.finishes())
    world.connect(A)
    assert world.announced[A] == [] and len(world.finishes()) == count


def test_an_attempt_is_stopped_when_its_lease_ends() -> None:
    world = World()
    world.assign((1, 1))
    world.pass_time(60)
    assert world.stopped == [], "its node hears the worker"
    world.driver.gone(A)
    world.pass_time(9)
    assert world.stopped == []
    world.pass_time(8)
    assert world.stopped == [(1, Stop.UNHEARD)]
    world.end((1, 1), Stop.UNHEARD)
    assert world.finishes() == []
    world.connect(A)
    world.assign((1, 1), again=True)
    assert world.executed == [(1, 1)], "what was given up does not start again"


def test_a_node_that_does_not_answer_is_left() -> None:
    world = World()
    world.pass_time(14, hearing=())
    assert world.hung_up == []
    world.pass_time(2, hearing=())
    assert world.hung_up == [A]
    world.assign((1, 1))
    assert world.executed == [], "what comes after the end of a connection is too late"


def test_a_cancel_before_the_start_prevents_it() -> None:
    world = World(slots=1)
    world.assign((1, 1))
    world.assign((2, 1))
    world.order(A, cancel((2, 1)), cancel((3, 1)))
    assert world.finishes() == [(2, 1), (3, 1)]
    world.order(A, cancel((1, 1)))
    assert world.stopped == [(1, Stop.CANCELLED)]
    world.end((1, 1), Stop.CANCELLED)
    world.assign((3, 1), again=True)
    assert world.executed == [(1, 1)] and (1, 1) in world.finishes()


def test_an_outcome_waits_for_its_output() -> None:
    world = World()
    for key in ((1, 1), (2, 1)):
        world.assign(key)
        assert world.driver.printed(key) == A
        world.end(key)
    assert world.finishes() == []
    world.driver.output_kept((1, 1))
    assert world.finishes() == [(1, 1)]
    world.pass_time(6)
    assert (2, 1) in world.finishes(), "it waits five seconds at most"


def test_another_kind_of_task_fails() -> None:
    world = World()
    for run, task in enumerate(['{"shell": "true"}', "{}", "no json"]):
        world.assign((run, 1), task=task)
    errors = [report.finished.error for report in world.said[A] if report.HasField("finished")]
    assert errors == ["this worker takes no shell tasks"] + ["this worker takes no unreadable tasks"] * 2
    assert world.executed == []


def test_a_draining_worker_lends_nothing_and_recalls_its_credits() -> None:
    world = World(slots=2)
    world.assign((1, 1))
    world.driver.drain(30, world.now)
    world.turn()
    assert [report.recall.credits for report in world.said[A] if report.HasField("recall")] == [1]
    assert world.drainings() == [True]
    world.order(A, pb.Order(gave_back=pb.GaveBack(total=1)))
    assert not world.driver.has_drained(world.time)
    world.end((1, 1))
    world.order(A, acknowledge((1, 1)))
    assert world.lent() == 2 and world.driver.has_drained(world.time)
    assert not world.connect(B)


def test_what_a_stopping_worker_has_not_started_is_declined() -> None:
    world = World(slots=1)
    world.assign((1, 1))
    world.assign((2, 1))
    world.driver.stop()
    world.turn()
    assert world.declines() == [2] and world.stopped == [(1, Stop.SHUTDOWN)]
    world.end((1, 1), Stop.SHUTDOWN)
    assert world.ends() == [pb.END_YIELDED], "it did nothing wrong, and its run goes on elsewhere"
    world.assign((3, 1))
    assert world.declines() == [2, 3] and world.executed == [(1, 1)]


def test_a_drained_worker_yields_what_runs_and_declines_the_rest() -> None:
    world = World(slots=1, nodes=2)
    world.assign((1, 1), A)
    world.assign((2, 1), A, again=True)
    world.order(B, drain(True), drain(True))
    assert world.drainings(A) == world.drainings(B) == [True], "every node is told, once"
    assert world.declines(A) == [2] and world.stopped == []
    world.assign((3, 1), A, again=True)
    assert world.declines(A) == [2, 3]
    world.assign((1, 1), A, again=True)
    assert world.declines(A) == [2, 3], "what runs is not declined"
    world.driver.gone(B)
    world.connect(B)
    assert world.drainings(B) == [True, True], "a node that admits it meanwhile is told, too"
    world.pass_time(4.9, hearing=(A, B))
    assert world.stopped == []
    world.pass_time(0.2, hearing=(A, B))
    assert world.stopped == [(1, Stop.DRAINED)]
    world.end((1, 1), Stop.DRAINED)
    assert world.ends() == [pb.END_YIELDED]
    world.order(A, acknowledge((1, 1)), drain(False))
    assert world.drainings(A)[-1] is False and world.drainings(B)[-1] is False
    assert world.lent(A) + world.lent(B) == 2, "its slot is lent again"
    world.assign((4, 1), A, again=True)
    assert world.executed == [(1, 1), (4, 1)]


def test_a_worker_that_is_resumed_in_time_stops_nothing() -> None:
    world = World()
    world.assign((1, 1))
    world.order(A, drain(True))
    world.pass_time(3)
    world.order(A, drain(False))
    world.pass_time(10)
    assert world.stopped == []
    world.end((1, 1))
    assert world.ends() == [pb.END_SUCCEEDED]


def test_a_worker_that_is_to_end_is_not_resumed() -> None:
    world = World()
    world.assign((1, 1))
    world.driver.drain(3, world.now)
    world.order(A, drain(False))
    assert world.drainings() == [True] and not world.driver.has_drained(world.time)
    assert world.driver.has_drained(world.time + 3)


def test_a_cancel_without_grace_follows_any_other_stop() -> None:
    world = World()
    world.assign((1, 1))
    for cause in (pb.CAUSE_USER, pb.CAUSE_MOVED, pb.CAUSE_USER_NOW, pb.CAUSE_USER_NOW):
        world.order(A, cancel((1, 1), cause))
    assert world.stopped == [(1, Stop.CANCELLED), (1, Stop.CANCELLED_NOW)]


def test_nodes_that_are_listed_are_dialled_and_dropped() -> None:
    world = World()
    world.driver.members(A, ["node-1:7400", "node-2:7400"])
    assert world.dialled == {A: "http://node-1:7400", B: "http://node-2:7400"}
    world.driver.members(A, ["node-1:7400"])
    assert world.dropped == [B]


def test_an_attempt_outlives_its_node_if_another_leads_its_shard() -> None:
    world = World(nodes=2)
    for link in (A, B):
        world.driver.members(link, ["node-1:7400", "node-2:7400"])
    world.assign((1, 1), A)
    world.driver.gone(A)
    world.driver.members(B, ["node-2:7400"])
    world.pass_time(60, hearing=(B,))
    assert world.stopped == []
    world.assign((1, 1), B, again=True)
    world.end((1, 1))
    assert world.finishes(B) == [(1, 1)] and world.executed == [(1, 1)]


def test_the_first_slot_goes_to_the_node_that_waits_with_the_highest_priority() -> None:
    world = World(slots=1, nodes=2)
    assert (world.lent(A), world.lent(B)) == (1, 0)
    world.order(B, pb.Order(waiting=pb.Waiting(priority=9, runs=1)))
    world.pass_time(0.06, hearing=(A, B))
    assert any(report.HasField("recall") for report in world.said[A]), "an unused credit is called back"
    world.order(A, pb.Order(gave_back=pb.GaveBack(total=1)))
    assert (world.lent(A), world.lent(B)) == (1, 1)


@pytest.mark.parametrize("seed", range(30))
def test_credits_and_attempts_are_never_more_than_slots(seed: int) -> None:
    """Nodes use, keep and give back credits as they like; streams break; attempts end when they like."""
    dice = random.Random(seed)
    world = World(slots=dice.randint(1, 5), nodes=3)
    slots, links = world.driver._attempts._slots, [1, 2, 3]
    used, gave_back, running, runs = dict.fromkeys(links, 0), dict.fromkeys(links, 0), set[Key](), 0
    up = set(links)
    for _ in range(300):
        link = dice.choice(links)
        unused = world.lent(link) - used[link] - gave_back[link] if link in up else 0
        match dice.randrange(6):
            case 0 | 1 if unused > 0:
                runs += 1
                used[link] += 1
                running.add((runs, 1))
                world.assign((runs, 1), link)
            case 2 if running:
                key = dice.choice(sorted(running))
                running.discard(key)
                world.end(key)
                world.order(dice.choice(sorted(up or {1})), acknowledge(key))
            case 3 if unused > 0:
                gave_back[link] += 1
                world.order(link, pb.Order(gave_back=pb.GaveBack(total=gave_back[link])))
            case 4 if link in up:
                world.order(link, pb.Order(waiting=pb.Waiting(priority=dice.randrange(10), runs=dice.randrange(4))))
            case 5 if dice.random() < 0.3:
                if link in up:
                    up.discard(link)
                    world.driver.gone(link)
                    world.turn()
                else:
                    up.add(link)
                    world.said[link].clear()
                    used[link] = gave_back[link] = 0
                    world.connect(link)
        world.pass_time(0.02, hearing=tuple(up))
        unused = sum(world.lent(link) - used[link] - gave_back[link] for link in up)
        assert unused + len(running) <= slots, (unused, running, slots)
        assert not up or unused + len(running) == slots, "every slot is lent or in use"


def test_progress_that_is_not_sent_yet_is_replaced_by_newer_progress() -> None:
    outbox = Outbox()
    for seq in range(1, 100):
        outbox.report(pb.Report(progress=pb.Progress(attempt=attempt((1, 1)), percent=seq, seq=seq)))
    outbox.report(pb.Report(progress=pb.Progress(attempt=attempt((1, 1)), checkpoint="7", seq=100)))
    outbox.report(finished((1, 1), pb.END_SUCCEEDED, 0))
    message = outbox.message()
    assert message is not None and len(message.reports) == 2
    progress = message.reports[0].progress
    assert (progress.percent, progress.checkpoint, progress.seq) == (99, "7", 100)


def test_no_more_output_is_under_way_than_the_window_holds() -> None:
    outbox = Outbox(window=1000)
    for number in range(5):
        outbox.log(pb.LogChunk(attempt=attempt((1, 1)), number=number, bytes=b"x" * 400))
    message = outbox.message()
    assert message is not None and [chunk.number for chunk in message.logs] == [0, 1]
    assert outbox.message() is None
    ack = pb.LogAck(attempt=attempt((1, 1)), number=0)
    assert outbox.acknowledged(ack) is not None and outbox.acknowledged(ack) is None
    message = outbox.message()
    assert message is not None and [chunk.number for chunk in message.logs] == [2]
    assert [chunk.number for chunk in outbox.take_logs()] == [1, 2, 3, 4]


def test_a_message_is_not_much_larger_than_it_may_be() -> None:
    outbox = Outbox()
    for run in range(200):
        outbox.report(finished((run, 1), pb.END_SUCCEEDED, 0, output="x" * 65_536))
    outbox.leave()
    messages = []
    while (message := outbox.message()) is not None:
        messages.append(message)
    assert max(message.ByteSize() for message in messages) < 2 * 1024 * 1024
    assert sum(len(message.reports) for message in messages) == 200
    assert [message.leaving for message in messages[-2:]] == [False, True], "the good-bye comes last"


def test_a_long_line_is_cut_and_the_next_one_is_not() -> None:
    lines = Lines()
    assert lines.add(b"short\n") == (b"short\n", 0)
    kept, left_out = lines.add(b"x" * LINE_BYTES_MAX + b"yy")
    assert kept == b"x" * LINE_BYTES_MAX + CUT_MARK and left_out == 2
    assert lines.add(b"still it\rnext") == (b"\rnext", 8)


def test_a_long_text_keeps_its_end() -> None:
    assert keep_end("short", 10) == "short"
    cut = keep_end("é" * 100, 50)
    assert cut.startswith("[…] é") and len(cut.encode()) <= 50
