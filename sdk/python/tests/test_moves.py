"""Runs that go on with another worker, and workers that are drained, beside a real node."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
from conftest import Node, Program, lines, until, working

from punctual import Client, Context, Problem, Run, SyncContext, Worker


def results(run: Run) -> list[str]:
    assert run.attempts is not None
    return [attempt["result"] for attempt in run.attempts]


def names(run: Run) -> list[str]:
    assert run.attempts is not None
    return [attempt["worker"].partition("@")[0] for attempt in run.attempts]


async def test_a_run_goes_on_elsewhere_when_its_worker_is_drained(node: Node, tmp_path: Path) -> None:
    first = Program("settle.py", node, tmp_path, name="first", DRAIN="0.2")
    async with Client(node.url) as client:
        run = await client.submit(function="settle", params={"rows": 6, "pause": 0.1})
        await until(lambda: len(lines(tmp_path, "row")) >= 3)
        second = Program("settle.py", node, tmp_path, name="second")
        await client.drain("first")
        ended = await client.wait(run.id, 60)
        assert (ended.state, ended.output) == ("succeeded", "settled 6")
        assert (names(ended), results(ended)) == (["first", "second"], ["moved", "succeeded"])
        assert int(lines(tmp_path, "attempt 2 from ")[0].split()[-1]) >= 2, "it continues at its checkpoint"
        assert len(lines(tmp_path, "row")) <= 7, "at most the row that was in hand is done again"
        assert first.process.poll() is None, "a drained worker lives"
        await client.drain("second")
        late = await client.submit(function="settle", params={"rows": 1, "pause": 0})
        await client.resume("first")
        # It may be given to the second before that has said that it drains, and comes back.
        assert names(await client.wait(late.id, 30))[-1] == "first"
        with pytest.raises(Problem) as unknown:
            await client.drain("third")
        assert unknown.value.code == "no_such_worker"
        for program in (first, second):
            program.process.send_signal(signal.SIGTERM)
            assert await program.ends() == 0


def long_worker(node: Node, name: str) -> Worker:
    """Its function waits until it is moved; after that it ends."""
    worker = Worker(node.url, name=name)

    @worker.function("long")
    async def long(cx: Context) -> str | None:
        if cx.resumed is not None:
            return f"{name} went on at {cx.resumed}"
        await cx.checkpoint(7)
        await cx.wait_cancelled()
        return None

    return worker


async def test_a_run_is_moved_to_a_named_worker(node: Node) -> None:
    async with working(long_worker(node, "first")) as client:
        run = await client.submit(function="long")

        async def is_stored() -> bool:
            return (await client.run(run.id)).checkpoint is not None

        await until(is_stored)
        async with working(long_worker(node, "second")):
            with pytest.raises(Problem) as unknown:
                await client.move(run.id, "third")
            assert unknown.value.field == "worker"
            await client.move(run.id, "second")
            ended = await client.wait(run.id, 30)
            assert (ended.state, ended.output) == ("succeeded", "second went on at 7")
            assert results(ended) == ["moved", "succeeded"]
            with pytest.raises(Problem) as over:
                await client.move(run.id)
            assert over.value.code == "wrong_state"


async def test_a_function_moves_itself_with_other_parameters(node: Node) -> None:
    worker = Worker(node.url)

    @worker.function("async")
    async def asynchronous(cx: Context, region: str, day: str | None = None) -> str:
        if region == "east":
            await cx.rebalance({"row": 5}, {"region": "west", "day": None})
        return f"{region} {day} from {cx.resumed}"

    @worker.function("plain")
    def plain(cx: SyncContext, region: str, day: str | None = None) -> str:
        if region == "east":
            cx.rebalance({"row": 5}, {"region": "west", "day": None})
        return f"{region} {day} from {cx.resumed}"

    async with working(worker) as client:
        for function in ("async", "plain"):
            run = await client.submit(function=function, params={"region": "east", "day": "monday"})
            ended = await client.wait(run.id, 30)
            assert (ended.state, ended.output) == ("succeeded", "west None from {'row': 5}")
            assert results(ended) == ["moved", "succeeded"]


async def test_the_grace_of_a_job_goes_before_that_of_the_worker(node: Node) -> None:
    worker = Worker(node.url, grace=60)
    asked: list[str] = []

    @worker.function("stubborn")
    async def stubborn(cx: Context) -> None:
        await cx.wait_cancelled()
        asked.append(cx.run)
        await asyncio.sleep(3600)

    async with working(worker) as client:

        async def cancelled(grace: str) -> str:
            """A run of a job with this grace, which was asked to end."""
            task = {"schedule": {"manual": True}, "task": {"function": "stubborn"}, "grace": grace}
            await client.put_job("stubborn", task)
            run = await client.start("stubborn")

            async def runs() -> bool:
                return (await client.run(run.id)).started_at is not None

            await until(runs)
            await client.cancel(run.id)
            await until(lambda: run.id in asked)
            return run.id

        begun = time.monotonic()
        short = await client.wait(await cancelled("1s"), 30)
        assert short.state == "cancelled" and time.monotonic() - begun >= 1
        long = await cancelled("10m")
        with pytest.raises(TimeoutError):
            await client.wait(long, 1)
        await client.cancel(long, now=True)
        assert (await client.wait(long, 30)).state == "cancelled"
