"""What the context of a function reports, without a node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import until

from punctual import Context, SyncContext, context
from punctual._output import Room, Transcript
from punctual._words import Stop
from punctual.v1 import worker_pb2 as pb

GIVEN = pb.Assignment(attempt=pb.Attempt(run=1, token=1), attempt_key="pk_1")


class Reporter:
    def __init__(self) -> None:
        self.sent: list[pb.Progress] = []

    def progress(self, report: pb.Report) -> None:
        self.sent.append(report.progress)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "REPORT_AGAIN", 0.02)


def transcript() -> Transcript:
    return Transcript((1, 1), Room(), lambda chunk: None)


async def test_a_checkpoint_without_an_answer_is_sent_again_with_a_new_number() -> None:
    """A node ignores a number that is not greater than an earlier one, and older checkpoints must not come back."""
    reporter = Reporter()
    sent, cx = reporter.sent, Context(GIVEN, transcript(), reporter)
    older = asyncio.ensure_future(cx.checkpoint("older"))
    await until(lambda: len(sent) > 0)
    cx.report(50)
    newer = asyncio.ensure_future(cx.checkpoint("newer"))
    await until(lambda: len(sent) > 5)
    assert [progress.seq for progress in sent] == list(range(1, len(sent) + 1))
    checkpoints = [progress.checkpoint for progress in sent if progress.HasField("checkpoint")]
    assert checkpoints[0] == '"older"' and set(checkpoints[2:]) == {'"newer"'}
    assert not older.done() and not newer.done()
    cx._saved(sent[-1].seq)
    await asyncio.gather(older, newer)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_wish_to_move_is_repeated_until_the_attempt_is_stopped(is_async: bool) -> None:
    reporter = Reporter()
    sent, cx = reporter.sent, (Context if is_async else SyncContext)(GIVEN, transcript(), reporter)

    async def rebalance(*wish: Any) -> None:
        await (cx.rebalance(*wish) if isinstance(cx, Context) else asyncio.to_thread(cx.rebalance, *wish))

    moving = asyncio.ensure_future(rebalance({"row": 3}, {"region": "west", "day": None}))
    await until(lambda: len(sent) > 2)
    assert not moving.done()
    cx._asked_to_stop(Stop.MOVED)
    await moving
    assert [wish.seq for wish in sent] == list(range(1, len(sent) + 1))
    assert {(wish.rebalance, wish.checkpoint, wish.params) for wish in sent} == {
        (True, '{"row":3}', '{"region":"west","day":null}')
    }
    with pytest.raises(TypeError, match="give a dict, not list"):
        await rebalance(None, [1])


async def test_the_key_of_an_attempt_is_given_to_its_function() -> None:
    assert Context(GIVEN, transcript(), Reporter()).attempt_key == "pk_1"
    assert Context(pb.Assignment(), transcript(), Reporter()).attempt_key is None
