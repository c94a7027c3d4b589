"""A worker that settles ten rows, with a checkpoint after each. It notes each row in a file."""

import asyncio
import os
from pathlib import Path

from punctual import Context, Worker

worker = Worker(
    name=os.environ["NAME"],
    slots=int(os.environ.get("SLOTS", "2")),
    drain=float(os.environ.get("DRAIN", "30")),
    grace=1,
)
rows_file = Path(os.environ["FOLDER"]) / "rows"


def note(line: str) -> None:
    with rows_file.open("a") as file:
        print(line, file=file)


@worker.function("settle")
async def settle(cx: Context, rows: int, pause: float) -> str:
    first = cx.resumed or 0
    note(f"attempt {cx.attempt} from {first}")
    for row in range(first, rows):
        note(f"row {row}")
        cx.report(100 * (row + 1) / rows, f"row {row}")
        await cx.checkpoint(row + 1)
        await asyncio.sleep(pause)
    return f"settled {rows}"


worker.run()
