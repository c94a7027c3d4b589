"""The client of the REST API beside a real node."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from conftest import Node, until, working

from punctual import Client, Context, Problem, Unreachable, Worker

LATER = timedelta(hours=1)


async def test_a_key_makes_one_run(node: Node) -> None:
    async with Client(node.url) as client:
        runs = await asyncio.gather(
            *(client.submit(function="f", key="k", delay=3600, params={"a": 1}) for _ in range(20))
        )
        assert len({run.id for run in runs}) == 1
        assert [run.id async for run in client.runs(key="k")] == [runs[0].id]


async def test_pages_are_read_to_their_end(node: Node) -> None:
    async with Client(node.url) as client:
        due = datetime.now(UTC) + LATER
        made = await asyncio.gather(*(client.submit(function="f", due_at=due) for _ in range(230)))
        listed = [run.id async for run in client.runs(state=["waiting", "ready"])]
        assert len(listed) == 230 and set(listed) == {run.id for run in made}
        names = [f"job-{number:03}" for number in range(120)]
        definition = {"schedule": {"manual": True}, "task": {"function": "f"}}
        await asyncio.gather(*(client.put_job(name, definition) for name in names))
        assert [job.name async for job in client.jobs()] == names


async def test_a_problem_has_the_code_the_message_and_the_field(node: Node) -> None:
    async with Client(node.url) as client:
        with pytest.raises(Problem) as missing:
            await client.run("12345")
        assert (missing.value.status, missing.value.code) == (404, "no_such_run")
        with pytest.raises(Problem) as invalid:
            await client.submit(function="f", priority=12)
        assert invalid.value.field == "priority" and invalid.value.message
        with pytest.raises(ValueError, match="either a task or the name of a function"):
            await client.submit()
        with pytest.raises(ValueError, match="needs a time zone"):
            await client.submit(function="f", due_at=datetime(2030, 1, 1))


async def test_the_first_server_that_answers_is_asked(node: Node) -> None:
    async with Client(["http://127.0.0.1:1", node.url]) as client:
        assert (await client.submit(function="f", delay="1h")).state == "waiting"
    async with Client("http://127.0.0.1:1") as client:
        with pytest.raises(Unreachable, match="no answer from http://127.0.0.1:1"):
            await client.run("1")


async def test_a_job_is_started_cancelled_and_retried(node: Node) -> None:
    worker = Worker(node.url)
    calls: list[object] = []

    @worker.function("settle")
    async def settle(cx: Context, day: str) -> str:
        calls.append((cx.job, cx.trigger, day, cx.resumed))
        if cx.resumed is None:
            await cx.checkpoint({"row": 7})
            await cx.wait_cancelled()
        return "done"

    async with working(worker) as client:
        job = await client.put_job(
            "nightly", {"schedule": {"manual": True}, "task": {"function": "settle"}, "params": {"day": "monday"}}
        )
        assert (job.name, job.state, job.revision) == ("nightly", "active", 1)
        run = await client.start("nightly", key="once")
        assert (await client.start("nightly", key="once")).id == run.id
        with pytest.raises(TimeoutError):
            await client.wait(run.id, 0.2)
        await until(lambda: bool(calls))

        async def is_stored() -> bool:
            return (await client.run(run.id)).checkpoint is not None

        await until(is_stored)
        await client.cancel(run.id)
        assert (await client.wait(run.id, 30)).state == "cancelled"
        again = await client.retry(run.id, params={"day": "tuesday"}, resume=True)
        ended = await client.wait(again.id, 30)
        assert (ended.state, ended.output, ended.retry_of) == ("succeeded", "done", run.id)
    assert calls == [("nightly", "manual", "monday", None), ("nightly", "retry", "tuesday", {"row": 7})]


async def test_progress_is_reported_over_rest(node: Node) -> None:
    worker = Worker(node.url)
    tokens: list[int] = []

    @worker.function("long")
    async def long(cx: Context) -> None:
        tokens.append(cx.token)
        await cx.wait_cancelled()

    async with working(worker) as client:
        run = await client.submit(function="long")
        await until(lambda: bool(tokens))
        await client.report(run.id, tokens[0], percent=30, message="third", checkpoint={"row": 3}, durable=True)
        seen = await client.run(run.id)
        assert (seen.progress, seen.progress_message) == (30, "third")
        with pytest.raises(Problem) as outdated:
            await client.report(run.id, tokens[0] - 1, percent=40)
        assert outdated.value.code == "outdated_token"
        await client.cancel(run.id)
        await client.wait(run.id, 30)
