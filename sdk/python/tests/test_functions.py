"""Functions of a worker that a real node calls: parameters, results, errors, reports, output and cancel."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import Node, until, working

from punctual import Context, Stopped, SyncContext, Worker


async def test_a_function_gets_its_parameters_and_gives_its_result(node: Node) -> None:
    worker = Worker(node.url, name="w", labels={"disk": "ssd"})

    @worker.function("add")
    async def add(cx: Context, a: int, b: int = 2) -> dict[str, int]:
        return {"sum": a + b, "attempt": cx.attempt}

    @worker.function()
    def shout(cx: SyncContext, **params: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return " ".join(params.values()).upper()

    @worker.function("nothing")
    async def nothing(cx: Context) -> None:
        assert (cx.namespace, cx.job, cx.trigger, cx.key, cx.part) == ("default", None, "submit", "k", (0, 1))
        assert cx.resumed is None and not cx.cancelled and cx.params == {"x": 1} and cx.token > 0

    async with working(worker) as client:
        run = await client.submit(function="add", params={"a": 40, "ignored": True})
        ended = await client.wait(run.id, 30)
        assert (ended.state, ended.result) == ("succeeded", {"sum": 42, "attempt": 1})
        assert ended.worker is not None and ended.worker.startswith("w@")
        route = {"selector": {"disk": "ssd"}}
        run = await client.submit(function="shout", params={"a": "hello", "b": "you"}, route=route)
        assert (await client.wait(run.id, 30)).output == "HELLO YOU"
        run = await client.submit(function="nothing", params={"x": 1}, key="k")
        ended = await client.wait(run.id, 30)
        assert (ended.state, ended.output or "", ended.error) == ("succeeded", "", None)


async def test_an_exception_fails_the_attempt_and_the_worker_lives(node: Node) -> None:
    worker = Worker(node.url)

    @worker.function("raises")
    async def raises(cx: Context, how: str) -> None:
        match how:
            case "value":
                raise ValueError("no such day")
            case "exit":
                sys.exit(3)
            case "cancel":
                raise asyncio.CancelledError
            case "unwritable":
                return object()  # type: ignore[return-value]

    @worker.function("raises-in-thread")
    def raises_in_thread(cx: SyncContext, how: str) -> None:
        if how == "exit":
            sys.exit(4)
        raise StopIteration

    expected = [
        ("raises", {"how": "value"}, "ValueError: no such day"),
        ("raises", {"how": "exit"}, "RuntimeError: the function called exit with 3"),
        ("raises", {"how": "cancel"}, "it was cancelled"),
        ("raises", {"how": "unwritable"}, "TypeError: Object of type object is not JSON serializable"),
        ("raises", {}, "TypeError: the run lacks the parameter how"),
        ("raises-in-thread", {"how": "exit"}, "RuntimeError: the function called exit with 4"),
        ("raises-in-thread", {"how": "stop"}, "RuntimeError: the function raised StopIteration()"),
    ]
    async with working(worker) as client:
        for function, params, error in expected:
            run = await client.submit(function=function, params=params)
            ended = await client.wait(run.id, 30)
            assert (ended.state, ended.error) == ("failed", error)
        run = await client.submit(function="raises", params={"how": "value"})
        await client.wait(run.id, 30)
        logs = await client.logs(run.id)
        assert "in raises" in logs and "_function.py" not in logs, logs


async def test_progress_is_seen_over_rest(node: Node) -> None:
    worker = Worker(node.url)
    go_on = asyncio.Event()

    @worker.function("slow")
    async def slow(cx: Context) -> None:
        for percent in range(40):
            cx.report(percent, "too fast to be seen")
        cx.report(40.7, "row 400 " + "é" * 200)
        await go_on.wait()
        cx.report(message="nearly")
        await cx.checkpoint({"row": 500})

    async with working(worker) as client:
        run = await client.submit(function="slow")

        async def shows_40() -> bool:
            return (await client.run(run.id)).progress == 40

        await until(shows_40)
        seen = await client.run(run.id)
        message = seen.progress_message or ""
        assert message.startswith("[…] é") and len(message.encode()) <= 256
        go_on.set()
        ended = await client.wait(run.id, 30)
        assert (ended.progress, ended.progress_message) == (40, "nearly")
        assert ended.checkpoint is not None and ended.checkpoint["value"] == {"row": 500}


async def test_a_plain_function_reports_and_checkpoints(node: Node) -> None:
    worker = Worker(node.url)

    @worker.function("plain")
    def plain(cx: SyncContext) -> str:
        if cx.resumed is None:
            cx.report(50, "half")
            cx.checkpoint([1, 2])
            raise RuntimeError("again")
        return f"from {cx.resumed}"

    async with working(worker) as client:
        run = await client.submit(function="plain", retry={"attempts": 2, "delay": "10ms"})
        ended = await client.wait(run.id, 30)
        assert (ended.state, ended.output, ended.attempt) == ("succeeded", "from [1, 2]", 2)


async def test_a_checkpoint_that_is_too_large_is_refused(node: Node) -> None:
    worker = Worker(node.url)

    @worker.function("large")
    async def large(cx: Context) -> list[str]:
        refused = []
        for value in (None, "x" * 70_000, float("nan")):
            try:
                await cx.checkpoint(value)
            except ValueError as error:
                refused.append(str(error)[:12])
        return refused

    async with working(worker) as client:
        run = await client.submit(function="large")
        assert (await client.wait(run.id, 30)).result == ["a checkpoint", "a checkpoint", "Out of range"]


async def test_prints_of_each_run_are_its_log(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    worker = Worker(node.url)

    @worker.function("talks")
    async def talks(cx: Context, who: str) -> None:
        for number in range(3):
            print(who, number)
            await asyncio.sleep(0)
        print("to stderr", file=sys.stderr)
        cx.log("by hand")

    @worker.function("talks-in-thread")
    def talks_in_thread(cx: SyncContext) -> None:
        print("from a thread")
        print("long " + "x" * 20_000 + "\nshort")

    async with working(worker) as client:
        runs = [await client.submit(function="talks", params={"who": who}) for who in ("anna", "ben")]
        for run, who in zip(runs, ("anna", "ben"), strict=True):
            await client.wait(run.id, 30)
            lines = (await client.logs(run.id)).splitlines()
            assert lines == [f"{who} 0", f"{who} 1", f"{who} 2", "to stderr", "by hand"]
        run = await client.submit(function="talks-in-thread")
        await client.wait(run.id, 30)
        lines = (await client.logs(run.id)).splitlines()
        assert lines[0] == "from a thread" and lines[2] == "short", lines
        assert lines[1].endswith(" […]") and len(lines[1]) < 16_500
        assert "bytes of output were not kept" in lines[3]
        print("outside")
    assert "outside" in capsys.readouterr().out


async def test_a_cancelled_function_ends_by_itself(node: Node) -> None:
    worker = Worker(node.url)
    tidied = []

    @worker.function("waits")
    async def waits(cx: Context) -> str:
        await cx.wait_cancelled()
        tidied.append(cx.stop_reason)
        return "not counted"

    @worker.function("waits-in-thread")
    def waits_in_thread(cx: SyncContext) -> None:
        assert cx.wait_cancelled(60)
        tidied.append(cx.stop_reason)

    async with working(worker) as client:
        for function in ("waits", "waits-in-thread"):
            run = await client.submit(function=function)
            await client_sees_running(client, run.id)
            await client.cancel(run.id)
            ended = await client.wait(run.id, 30)
            assert (ended.state, ended.output or "") == ("cancelled", "")
    assert tidied == ["cancelled on request"] * 2


async def test_a_function_that_ignores_its_cancel_is_stopped_after_its_grace(node: Node) -> None:
    worker = Worker(node.url, grace=0.5)
    seen: list[str] = []

    @worker.function("stubborn")
    async def stubborn(cx: Context) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            seen.append("first")
        await asyncio.sleep(3600)

    @worker.function("stubborn-in-thread")
    def stubborn_in_thread(cx: SyncContext) -> None:
        try:
            while True:
                cx.report(1)
                time.sleep(0.01)
        except Stopped as error:
            seen.append(str(error))
            raise

    async with working(worker) as client:
        for function in ("stubborn", "stubborn-in-thread"):
            run = await client.submit(function=function, timeout=0.3)
            ended = await client.wait(run.id, 30)
            assert ended.state == "timed_out"
            error = "stopped at its timeout: it had not ended when its grace was over, and was cancelled"
            assert ended.error == error
    assert seen == ["first", "the attempt is over: stopped at its timeout"]


async def client_sees_running(client: object, run: str) -> None:
    async def runs() -> bool:
        return (await client.run(run)).started_at is not None  # type: ignore[attr-defined]

    await until(runs)


def test_a_worker_says_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    for given, text in [
        ({"server": "localhost:7400"}, "is not like http://host:7400"),
        ({"name": "a b"}, "name: 1 to 128 letters, digits"),
        ({"slots": 0}, "slots: 1 to 65536, not 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            Worker(**given)  # type: ignore[arg-type]
    worker = Worker()
    with pytest.raises(TypeError, match="takes no context"):
        worker.function("f")(lambda: None)
    with pytest.raises(TypeError, match="have no name for a caller"):

        @worker.function("g")
        async def g(cx: Context, a: int, /) -> None: ...

    worker.function("h")(lambda cx: None)
    with pytest.raises(ValueError, match="a function `h` is registered already"):
        worker.function("h")(lambda cx: None)
