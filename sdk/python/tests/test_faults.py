"""A worker beside a real node while one of them is killed, stopped or drained."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from conftest import Node, Program, lines, until, working

from punctual import Client, Context, Refused, Worker


async def test_a_killed_worker_is_followed_by_one_that_resumes(node: Node, tmp_path: Path) -> None:
    first = Program("settle.py", node, tmp_path)
    async with Client(node.url) as client:
        run = await client.submit(function="settle", params={"rows": 10, "pause": 0.05})
        await until(lambda: len(lines(tmp_path, "row")) >= 4)
        first.kill()
        second = Program("settle.py", node, tmp_path)
        ended = await client.wait(run.id, 60)
        second.kill()
    assert (ended.state, ended.attempt, ended.output) == ("succeeded", 2, "settled 10")
    (_, resumed) = lines(tmp_path, "attempt")
    at = int(resumed.removeprefix("attempt 2 from "))
    done = [int(line.removeprefix("row ")) for line in lines(tmp_path, "row")]
    # A checkpoint that was acknowledged is never lost: at most the row that was in hand is done again.
    assert at >= 3 and set(done) == set(range(10)) and len(done) <= 11, done


async def test_an_outcome_outlives_a_killed_node(node: Node, tmp_path: Path) -> None:
    worker = Worker(node.url)
    calls, go_on = [], asyncio.Event()

    @worker.function("long")
    async def long(cx: Context) -> str:
        calls.append(cx.token)
        print("one line")
        await go_on.wait()
        print("another line")
        return "kept"

    async with working(worker) as client:
        run = await client.submit(function="long")
        await until(lambda: bool(calls))
        node.kill()
        go_on.set()
        await asyncio.sleep(0.2)
        node.start()
        ended = await client.wait(run.id, 60)
        assert (ended.state, ended.output, ended.attempt) == ("succeeded", "kept", 1)
        assert len(calls) == 1
        assert (await client.logs(run.id)).splitlines() == ["one line", "another line"]


async def test_a_checkpoint_outlives_a_killed_node(node: Node, tmp_path: Path) -> None:
    program = Program("settle.py", node, tmp_path)
    async with Client(node.url) as client:
        run = await client.submit(function="settle", params={"rows": 6, "pause": 0.1})
        for count in (2, 4):
            await until(lambda count=count: len(lines(tmp_path, "row")) >= count)  # type: ignore[misc]
            node.kill()
            node.start()
        ended = await client.wait(run.id, 60)
        program.kill()
    assert (ended.state, ended.attempt, ended.progress) == ("succeeded", 1, 100)
    assert len(lines(tmp_path, "row")) == 6


async def test_a_worker_that_drains_finishes_what_runs(node: Node, tmp_path: Path) -> None:
    first = Program("settle.py", node, tmp_path, name="first", SLOTS="1")
    async with Client(node.url) as client:
        run = await client.submit(function="settle", params={"rows": 5, "pause": 0.2})
        await until(lambda: len(lines(tmp_path, "row")) >= 1)
        first.process.send_signal(signal.SIGTERM)
        late = await client.submit(function="settle", params={"rows": 1, "pause": 0})
        assert await first.ends() == 0
        ended = await client.run(run.id)
        assert (ended.state, ended.attempt) == ("succeeded", 1)
        assert (await client.run(late.id)).attempt == 0
        second = Program("settle.py", node, tmp_path, name="second")
        assert ((await client.wait(late.id, 60)).worker or "").startswith("second@")
        second.kill()


async def test_what_does_not_finish_in_time_goes_on_elsewhere(node: Node, tmp_path: Path) -> None:
    first = Program("settle.py", node, tmp_path, name="first", DRAIN="0.2")
    async with Client(node.url) as client:
        run = await client.submit(function="settle", params={"rows": 7, "pause": 0.2})
        await until(lambda: len(lines(tmp_path, "row")) >= 3)
        first.process.send_signal(signal.SIGTERM)
        second = Program("settle.py", node, tmp_path, name="second")
        assert await first.ends() == 0
        ended = await client.wait(run.id, 60)
        second.kill()
    assert (ended.state, ended.output) == ("succeeded", "settled 7")
    assert (ended.worker or "").startswith("second@")
    assert [attempt["result"] for attempt in ended.attempts or []] == ["moved", "succeeded"]
    done = lines(tmp_path, "row")
    assert set(done) == {f"row {row}" for row in range(7)} and len(done) <= 8


async def test_an_attempt_is_stopped_when_its_lease_ends(node: Node) -> None:
    worker = Worker(node.url, grace=60)
    stopped: list[str | None] = []

    @worker.function("long")
    async def long(cx: Context) -> str:
        if cx.attempt > 1:
            return "second"
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append(cx.stop_reason)
        return ""

    async with working(worker) as client:
        run = await client.submit(function="long")

        async def runs() -> bool:
            return (await client.run(run.id)).started_at is not None

        await until(runs)
        # It hears nothing for longer than the lease of 5 s.
        node.signal(signal.SIGSTOP)
        await until(lambda: bool(stopped), within=5 + 5)
        node.signal(signal.SIGCONT)
        ended = await client.wait(run.id, 60)
        assert (ended.state, ended.output, ended.attempt) == ("succeeded", "second", 2)
    assert stopped == ["no node has heard its worker for a lease"]


async def test_a_node_with_two_addresses_has_one_stream(node: Node) -> None:
    port = node.address.rpartition(":")[2]
    worker = Worker([node.url, f"http://localhost:{port}", "http://127.0.0.1:1"], slots=1)
    at_once, most = 0, 0

    @worker.function("counts")
    async def counts(cx: Context) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1

    async with working(worker) as client:
        runs = [await client.submit(function="counts") for _ in range(20)]
        for run in runs:
            assert (await client.wait(run.id, 30)).state == "succeeded"
    assert most == 1


async def test_a_second_worker_with_the_name_is_refused(node: Node) -> None:
    first, second = Worker(node.url, name="twin"), Worker(node.url, name="twin")
    async with working(first):
        with pytest.raises(Refused, match="twin"):
            await second.serve()


async def test_a_node_that_is_killed_again_and_again_doubles_nothing(node: Node) -> None:
    worker = Worker(node.url, slots=4)
    calls: list[str] = []

    @worker.function("work")
    async def work(cx: Context, seconds: float) -> str:
        calls.append(cx.run)
        print("working")
        await asyncio.sleep(seconds)
        return cx.run

    async with working(worker) as client:
        runs = [await client.submit(function="work", params={"seconds": number % 7 / 20}) for number in range(60)]
        for count in (5, 15, 25, 35, 45):
            await until(lambda count=count: len(calls) >= count)  # type: ignore[misc]
            node.kill()
            node.start()
        for run in runs:
            ended = await client.wait(run.id, 60)
            assert (ended.state, ended.output, ended.attempt) == ("succeeded", run.id, 1)
    assert sorted(calls) == sorted(run.id for run in runs)
