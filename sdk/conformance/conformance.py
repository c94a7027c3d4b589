"""Holds any worker against the rules of a worker.

    python sdk/conformance/conformance.py -- punctual worker --drain 8s
    python sdk/conformance/conformance.py -- python sdk/conformance/python_worker.py

It plays a scripted node for each rule, starts the command as its worker, prints a line for each rule and exits with 1
if one is broken. The command finds in its environment:

    PUNCTUAL_SERVER        the URL of the node
    PUNCTUAL_WORKER_NAME   the name to announce
    PUNCTUAL_DATA          a folder for this worker alone
    PUNCTUAL_SLOTS         how many slots to announce

The worker takes shell tasks, or it has the function `conformance`: it appends `start` to the file that its parameter
`file` names, prints a line, appends `tick` every 50 ms for `seconds`, and then `end`. It ends early when it is asked
to, unless its parameter `stubborn` is true.

The worker gives attempts 8 seconds to end when it is drained or stopped, and has a grace period of 10 seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import stopping  # noqa: F401
from scripted_node import HEARTBEAT_MS, RULES, SLOTS, Node, Script, Stream, check, play, rule, until

from punctual.v1 import worker_pb2 as pb

#: Scripts that are played at once.
AT_ONCE = 6


@rule("announce: the first message says who the worker is and what it takes")
async def announce(node: Node) -> None:
    stream = await node.next_stream()
    said = stream.announce
    check(said.name == "conformance", f"the name is that of the environment, not `{said.name}`")
    check(said.life != 0, "each life of a worker has a number of its own")
    check(said.protocol == 1, f"protocol 1, not {said.protocol}")
    check(said.slots == SLOTS, f"{SLOTS} slots, not {said.slots}")
    check(len(said.kinds) > 0, "at least one kind of task")
    check(not said.holding, "a fresh worker has nothing in hand")
    await stream.settle()


@rule("announce: each process has another life, and nothing of the one before it")
async def life(node: Node) -> None:
    first, task = await node.next_stream(), node.task(60)
    await first.assign((1, 1), task)
    await task.begins()
    await node.stop()
    before = node.streams
    after = Node(node._command, node.folder, SLOTS)
    await after.start()
    try:
        second = await after.next_stream()
        check(before[-1].announce.life != second.announce.life, "the second process has another life")
        check(not second.announce.holding, "what the first process had is lost")
    finally:
        await after.stop()


@rule("credits: nothing is lent before the node admits the worker")
async def lends_when_admitted(node: Node) -> None:
    stream = await node.next_stream(admits=False)
    await asyncio.sleep(2 * HEARTBEAT_MS / 1000)
    check(not stream.reports, "nothing is reported before the worker is admitted")
    await stream.admit()
    await until("the free slots are lent", lambda: stream.lent == SLOTS)


@rule("credits: a slot is lent again only when its attempt has ended")
async def credits(node: Node) -> None:
    stream = await node.next_stream()
    await until("the free slots are lent", lambda: stream.lent == SLOTS)
    long, short = node.task(60), node.task(1)
    await stream.assign((1, 1), long)
    await stream.assign((2, 1), short)
    await stream.started((1, 1))
    await stream.started((2, 1))
    check(stream.lent == SLOTS or bool(stream.ends((2, 1))), "nothing is lent while every slot is in use")
    await stream.ended((2, 1))
    await until("the free slot is lent", lambda: stream.lent == SLOTS + 1)
    await stream.settle()
    check(stream.lent == SLOTS + 1, "the slot that is in use is not lent")


@rule("credits: no more attempts run at once than there are slots")
async def slots(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(0.1)
    # As a node does: each credit is used the moment it is there.
    keys = [(run, 1) for run in range(1, 21)]
    for key in keys:
        await stream.assign(key, task)
    for key in keys:
        await stream.ended(key)
        await stream.acknowledge(key)
    check(task.count("end") == len(keys), f"{len(keys)} were assigned, {task.count('end')} ran")
    check(task.most_at_once() <= SLOTS, f"{task.most_at_once()} ran at once in {SLOTS} slots")
    await until("each slot is lent again", lambda: stream.lent == len(keys) + SLOTS)


@rule("credits: a credit that the node gives back is lent again")
async def gives_back(node: Node) -> None:
    stream = await node.next_stream()
    await until("the free slots are lent", lambda: stream.lent == SLOTS)
    stream.gave_back = 1
    await stream.order(pb.Order(gave_back=pb.GaveBack(total=1)))
    await until("the credit that was given back is lent again", lambda: stream.lent == SLOTS + 1)


@rule("attempts: a start and an outcome are reported, with the output before it")
async def outcome(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(0.1)
    stream.keeps = False
    await stream.assign((1, 1), task)
    await stream.started((1, 1))
    await until("the output arrives", lambda: any(b"hello" in chunk.bytes for chunk in stream.chunks))
    await until("the work ends", lambda: task.count("end") == 1)
    numbers = [chunk.number for chunk in stream.chunks]
    check(numbers == list(range(len(numbers))), f"chunks are numbered from 0 without gaps, not {numbers}")
    check(not stream.ends((1, 1)), "the outcome waits until the output is acknowledged")
    stream.keeps = True
    acks = [pb.LogAck(attempt=chunk.attempt, number=chunk.number) for chunk in stream.chunks]
    await stream.send(pb.FromNode(log_acks=acks))
    ended = await stream.ended((1, 1))
    check(ended.end == pb.END_SUCCEEDED, f"it succeeded, not {pb.End.Name(ended.end)}: {ended.error}")


@rule("attempts: heartbeats name what is in hand until it is acknowledged")
async def heartbeats(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(0.1)
    await stream.assign((1, 1), task)
    await stream.ended((1, 1))
    await stream.settle()
    check((1, 1) in stream.beats[-1], "an outcome that nobody acknowledged is in hand")
    await stream.acknowledge((1, 1))
    await until("it is forgotten when it is acknowledged", lambda: (1, 1) not in stream.beats[-1])


@rule("one start: an assignment that is repeated while it runs starts nothing")
async def repeated_while_running(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(3)
    await stream.assign((1, 1), task)
    await task.begins()
    for _ in range(3):
        await stream.assign((1, 1), task, again=True)
    await stream.settle()
    await stream.ended((1, 1))
    check(task.count("start") == 1, f"it started {task.count('start')} times")


@rule("one start: an assignment that is repeated after its end is answered with the outcome")
async def repeated_after_end(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(0.1)
    await stream.assign((1, 1), task)
    await stream.ended((1, 1))
    count = len(stream.ends((1, 1)))
    await stream.assign((1, 1), task, again=True)
    await until("the outcome is sent again", lambda: len(stream.ends((1, 1))) > count)
    await stream.acknowledge((1, 1))
    await stream.assign((1, 1), task, again=True)
    await stream.settle()
    check(task.count("start") == 1, f"it started {task.count('start')} times, though it was acknowledged")


@rule("one start: a newer token stops the older attempt and runs after it")
async def newer_token(node: Node) -> None:
    stream, older, newer = await node.next_stream(), node.task(60), node.task(0.1)
    await stream.assign((1, 1), older)
    await older.begins()
    await stream.assign((1, 2), newer)
    await stream.ended((1, 2))
    ticks = older.count("tick")
    await stream.settle()
    check(older.count("tick") == ticks, "the older attempt goes on")
    check(not stream.ends((1, 1)), "the outcome of the older attempt is not reported")
    await stream.assign((1, 1), older, again=True)
    await stream.settle()
    check(older.count("start") == 1, "an outdated token starts again")


@rule("reconnect: a broken stream stops no attempt")
async def reconnect(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(60)
    await stream.assign((1, 1), task)
    await task.begins()
    stream.end()
    second = await node.next_stream()
    held = {(attempt.run, attempt.token) for attempt in second.announce.holding}
    check(held == {(1, 1)}, f"the announcement names what is in hand, not {held}")
    await second.started((1, 1))
    await until("the slots without an attempt are lent", lambda: second.lent == SLOTS - 1)
    ticks = task.count("tick")
    await until("the work goes on", lambda: task.count("tick") > ticks)
    check(task.count("start") == 1, "it started again")


@rule("reconnect: an outcome is sent again after each reconnect, until it is acknowledged")
async def outcome_is_kept(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(0.1)
    await stream.assign((1, 1), task)
    first = await stream.ended((1, 1))
    for _ in range(2):
        stream.end()
        stream = await node.next_stream()
        again = await stream.ended((1, 1))
        check(again == first, "it is the same outcome")
    await stream.acknowledge((1, 1))
    await stream.settle()
    stream.end()
    stream = await node.next_stream()
    await stream.settle()
    check(not stream.ends((1, 1)) and not stream.announce.holding, "an outcome that was acknowledged is sent again")


@rule("reconnect: an outcome of a cut worker is sent when the node is back")
async def outcome_while_cut(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(1)
    await stream.assign((1, 1), task)
    await task.begins()
    node.accepts = False
    stream.end()
    await until("the work ends without the node", lambda: task.count("end") == 1)
    node.accepts = True
    await (await node.next_stream()).ended((1, 1))
    check(task.count("start") == 1, "it started again")


@rule("reconnect: every unacknowledged outcome is sent again when the node asks for it")
async def resend(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(0.1)
    await stream.assign((1, 1), task)
    await stream.ended((1, 1))
    count = len(stream.ends((1, 1)))
    await stream.order(pb.Order(resend=pb.Resend()))
    await until("the outcome is sent again", lambda: len(stream.ends((1, 1))) > count)


@rule("lease: an attempt is stopped when the node has not heard the worker for a lease")
async def lease(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(60)
    await stream.assign((1, 1), task, lease=3)
    await task.begins()
    await stream.settle()
    node.accepts = stream.hears = False
    await task.stops(within=3 + 3)
    node.accepts = True
    second = await node.next_stream()
    await second.settle()
    check((1, 1) not in second.beats[-1], "an attempt that was given up is still in hand")
    check(task.count("end") == 0, "the work was not stopped")


@rule("lease: an attempt goes on as long as its heartbeats are answered")
async def renewed(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(5)
    await stream.assign((1, 1), task, lease=2.5)
    ended = await stream.ended((1, 1))
    check(ended.end == pb.END_SUCCEEDED, f"it was stopped: {ended.error}")


@asynccontextmanager
async def beside(node: Node) -> AsyncIterator[tuple[Stream, Stream, Node]]:
    """A second node, which the first one names. Gives the worker's streams to both."""
    first = await node.next_stream()
    await until("the free slots are lent", lambda: first.lent == SLOTS)
    folder = node.folder / "second"
    folder.mkdir()
    second = Node([], folder, SLOTS)
    await second.listen()
    try:
        both = [node.address, second.address]
        await first.send(pb.FromNode(nodes=pb.Nodes(addresses=both)))
        stream = await second.next_stream()
        await stream.send(pb.FromNode(nodes=pb.Nodes(addresses=both)))
        yield first, stream, second
        second.verify()
    finally:
        await second.stop()


@rule("several nodes: a slot goes to the node that waits, when the other has given it back")
async def shared(node: Node) -> None:
    async with beside(node) as (first, second, _):
        await second.order(pb.Order(waiting=pb.Waiting(priority=5, runs=1)))
        await until("an unused credit is called back", lambda: first.recalled > 0)
        await second.settle()
        check(second.lent == 0, "a slot is lent twice")
        first.gave_back = 1
        await first.order(pb.Order(gave_back=pb.GaveBack(total=1)))
        await until("the credit goes to the node that waits", lambda: second.lent == 1)
        await second.settle()
        check(first.lent - first.gave_back + second.lent == SLOTS, "more slots are lent than there are")


@rule("several nodes: an attempt that another node takes over goes on, and that node gets its outcome")
async def taken_over(node: Node) -> None:
    async with beside(node) as (first, second, other):
        task = node.task(4)
        await first.assign((1, 1), task)
        await task.begins()
        node.accepts = False
        first.end()
        await second.send(pb.FromNode(nodes=pb.Nodes(addresses=[other.address])))
        await second.assign((1, 1), task, again=True)
        ended = await second.ended((1, 1))
        check(ended.end == pb.END_SUCCEEDED, f"it was stopped: {ended.error}")
        check(task.count("start") == 1, "it started again")


@rule("several nodes: the first offer of an attempt, if it comes late, does not take it back")
async def late_offer(node: Node) -> None:
    async with beside(node) as (first, second, _):
        task = node.task(4)
        await second.assign((1, 1), task, again=True)
        await task.begins()
        await first.assign((1, 1), task)
        await second.ended((1, 1))
        check(not first.ends((1, 1)), "its outcome went to the former leader")


async def hold(command: list[str], only: str) -> int:
    """Plays the scripts of all rules, and prints a line for each. Returns how many are broken."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def judge(text: str, script: Script) -> str | None:
        async with turns:
            broken = await play(script, command, SLOTS)
            print(f"ok    {text}" if broken is None else f"FAIL  {text}: {broken}", flush=True)
            return broken

    chosen = [(text, script) for text, script in RULES if only in text]
    judged = await asyncio.gather(*(judge(text, script) for text, script in chosen))
    broken = sum(result is not None for result in judged)
    print(f"{len(judged) - broken} of {len(judged)} rules hold")
    return broken


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="TEXT", help="only rules whose text contains this")
    options.add_argument("command", nargs="+", help="the command that starts the worker, after `--`")
    given = options.parse_args()
    sys.exit(1 if asyncio.run(hold(given.command, given.only)) else 0)


if __name__ == "__main__":
    main()
