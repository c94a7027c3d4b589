"""The rules about the end of attempts before their work is done: cancel, grace and drain."""

from __future__ import annotations

import signal
import time

from scripted_node import SLOTS, SOON, Node, Stream, Task, check, rule, until

from punctual.v1 import worker_pb2 as pb

#: How long attempts may take to end when the worker is drained or stopped.
DRAIN = 8.0


@rule("cancel: a running attempt is stopped and reported as failed")
async def cancel(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(60)
    await stream.assign((1, 1), task)
    await task.begins()
    await stream.cancel((1, 1))
    ended = await stream.ended((1, 1))
    check(ended.end == pb.END_FAILED, f"it failed, not {pb.End.Name(ended.end)}")
    check(task.count("end") == 0, "the work went on to its end")
    await until("its slot is lent again", lambda: stream.lent == SLOTS + 1)


@rule("cancel: a timeout is reported as one")
async def timeout(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(60)
    await stream.assign((1, 1), task)
    await task.begins()
    await stream.cancel((1, 1), pb.CAUSE_TIMEOUT)
    ended = await stream.ended((1, 1))
    check(ended.end == pb.END_TIMED_OUT, f"it timed out, not {pb.End.Name(ended.end)}")


@rule("cancel: an attempt that has not started never does")
async def cancel_before(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(0.1)
    await stream.cancel((1, 1))
    ended = await stream.ended((1, 1))
    check(ended.end == pb.END_FAILED, f"it failed, not {pb.End.Name(ended.end)}")
    await stream.assign((1, 1), task, again=True)
    await stream.settle()
    check(task.count("start") == 0, "it started after it was cancelled")


@rule("cancel: an attempt that moves to another worker is stopped and reported as failed")
async def moved(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(60)
    await stream.assign((1, 1), task)
    await task.begins()
    await stream.cancel((1, 1), pb.CAUSE_MOVED)
    ended = await stream.ended((1, 1))
    check(ended.end == pb.END_FAILED, f"it failed, not {pb.End.Name(ended.end)}")
    check(task.count("end") == 0, "the work went on to its end")


@rule("grace: the assignment says how long an attempt may take to end when it is stopped")
async def grace(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(60, stubborn=True)
    await stream.assign((1, 1), task, grace=2)
    await task.begins()
    asked = time.monotonic()
    await stream.cancel((1, 1))
    await stream.ended((1, 1), within=8)
    waited = time.monotonic() - asked
    check(waited >= 1.9, f"it was killed {waited:.1f} s after it was asked to end, not 2")
    check(task.count("end") == 0, "the work went on to its end")


@rule("grace: a cancel without one ends an attempt at once, also one that is asked to end already")
async def without_grace(node: Node) -> None:
    stream, first, second = await node.next_stream(), node.task(60, stubborn=True), node.task(60, stubborn=True)
    for run, task in ((1, first), (2, second)):
        await stream.assign((run, 1), task, grace=60)
        await task.begins()
    await stream.cancel((1, 1), pb.CAUSE_USER_NOW)
    await stream.ended((1, 1))
    await stream.cancel((2, 1))
    await stream.settle()
    check(not stream.ends((2, 1)), "it ends before its grace period is over")
    await stream.cancel((2, 1), pb.CAUSE_USER_NOW)
    await stream.ended((2, 1))


async def drained(stream: Stream) -> None:
    """Answers as a node does: unused credits are given back."""
    await until("unused credits are called back", lambda: stream.recalled > 0)
    stream.gave_back = stream.lent - stream.used
    await stream.order(pb.Order(gave_back=pb.GaveBack(total=stream.gave_back)))


@rule("drain: a worker without attempts leaves at once, with a good-bye")
async def leaves(node: Node) -> None:
    stream = await node.next_stream()
    await until("the free slots are lent", lambda: stream.lent == SLOTS)
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)
    await drained(stream)
    await until("the worker says good-bye", lambda: stream.is_leaving)
    await until("the process ends", lambda: node.process is not None and node.process.returncode is not None)
    check(node.process.returncode == 0, f"it exits with {node.process.returncode}")


@rule("drain: what runs is finished, and nothing is lent meanwhile")
async def drains(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(2)
    await until("the free slots are lent", lambda: stream.lent == SLOTS)
    await stream.assign((1, 1), task)
    await task.begins()
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)
    await drained(stream)
    await stream.says_draining(True)
    ended = await stream.ended((1, 1))
    check(ended.end == pb.END_SUCCEEDED, f"it was stopped: {ended.error}")
    check(stream.lent == SLOTS, "a worker that drains lends")
    check(not stream.is_leaving, "it leaves before its outcome is acknowledged")
    await stream.acknowledge((1, 1))
    await until("the worker says good-bye", lambda: stream.is_leaving)


@rule("drain: a worker that ends yields what has not ended in time")
async def yields_at_its_end(node: Node) -> None:
    stream, task = await node.next_stream(), node.task(60)
    await stream.assign((1, 1), task)
    await task.begins()
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)
    ended = await stream.ended((1, 1), within=DRAIN + SOON)
    check(ended.end == pb.END_YIELDED, f"it is yielded, not {pb.End.Name(ended.end)}: {ended.error}")
    await until("the worker says good-bye", lambda: stream.is_leaving)
    await until("the process ends", lambda: node.process is not None and node.process.returncode is not None)


async def drain(stream: Stream, task: Task) -> None:
    """Drains the worker when the work has begun."""
    await task.begins()
    await stream.order(pb.Order(drain=pb.Drain(on=True)))
    await stream.says_draining(True)
    await drained(stream)


@rule("drain: a drained worker takes nothing more, says so, and lends again when it is resumed")
async def drained_and_resumed(node: Node) -> None:
    stream, running, late = await node.next_stream(), node.task(2), node.task(0.1)
    await until("the free slots are lent", lambda: stream.lent == SLOTS)
    await stream.assign((1, 1), running)
    await drain(stream, running)
    await stream.assign((2, 1), late, again=True)
    await until("an attempt is declined", lambda: stream.declines((2, 1)))
    ended = await stream.ended((1, 1))
    check(ended.end == pb.END_SUCCEEDED, f"what runs may end in time: {ended.error}")
    await stream.acknowledge((1, 1))
    await stream.settle()
    check(stream.lent == SLOTS, "a drained worker lends")
    check(node.process is not None and node.process.returncode is None, "a drained worker does not end")
    stream.end()
    stream = await node.next_stream()
    await stream.says_draining(True)
    await stream.settle()
    check(stream.lent == 0, "a drained worker lends after a reconnect")
    await stream.order(pb.Order(drain=pb.Drain(on=False)))
    await stream.says_draining(False)
    await until("the free slots are lent", lambda: stream.lent == SLOTS)
    await stream.assign((2, 2), late)
    await stream.ended((2, 2))
    check(late.count("start") == 1, f"what was declined started: {late.count('start')} starts")


@rule("drain: a drained worker yields what has not ended in time, and goes on living")
async def yields_when_drained(node: Node) -> None:
    stream, task, next_task = await node.next_stream(), node.task(60), node.task(0.1)
    await until("the free slots are lent", lambda: stream.lent == SLOTS)
    await stream.assign((1, 1), task)
    asked = time.monotonic()
    await drain(stream, task)
    ended = await stream.ended((1, 1), within=DRAIN + SOON)
    waited = time.monotonic() - asked
    check(waited >= DRAIN - 0.1, f"it was stopped {waited:.1f} s after the worker was drained, not {DRAIN:g}")
    check(ended.end == pb.END_YIELDED, f"it is yielded, not {pb.End.Name(ended.end)}: {ended.error}")
    check(task.count("end") == 0, "the work went on to its end")
    await stream.acknowledge((1, 1))
    await stream.order(pb.Order(drain=pb.Drain(on=False)))
    await stream.assign((2, 1), next_task)
    await stream.ended((2, 1))
