# The worker of rows.rs in Python. Start it with `python examples/rows.py NAME http://127.0.0.1:7400`, with the package
# `punctual` of sdk/python installed. Workers in both languages may share the runs of rows.yaml.
import sys

from punctual import Context, Worker

name, *servers = sys.argv[1:]
# A drained worker hands its run on at once: little is done again. Without `capture`, print writes to the terminal.
worker = Worker(servers, name=name, drain=0, capture=False)


def amount(row: int) -> int:
    """The amount of a row. A real settlement reads it from a table."""
    return row % 97


@worker.function("settle-rows")
async def settle_rows(cx: Context, rows: int, chunk: int) -> dict[str, int]:
    done = cx.resumed or {"rows": 0, "sum": 0}
    attempt = f"run {cx.run} attempt {cx.attempt}"
    print(f"{attempt}: starts at {done['rows']}", flush=True)
    while done["rows"] < rows:
        if cx.cancelled:
            raise RuntimeError("it was stopped between two chunks")
        start, end = done["rows"], min(rows, done["rows"] + max(chunk, 1))
        print(f"{attempt}: settles {start} to {end}", flush=True)
        done = {"rows": end, "sum": done["sum"] + sum(map(amount, range(start, end)))}
        cx.report(100 * end // rows, f"row {end}")
        await cx.checkpoint(done)  # returns when it is stored
        print(f"{attempt}: stored {end}", flush=True)
    return {"rows": rows, "sum": done["sum"]}


worker.run()
