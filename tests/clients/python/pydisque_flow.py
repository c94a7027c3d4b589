"""The ordinary flow of a Disque client for Python, with its defaults: python pydisque_flow.py PORT"""

import sys

from pydisque.client import Client

client = Client([f"127.0.0.1:{sys.argv[1]}"])
client.connect()

job_id = client.add_job("python", "hello", timeout=1000)
assert job_id.startswith(b"D-") and len(job_id) == 40, job_id
assert client.qlen("python") == 1

shown = client.show(job_id, return_dict=True)
assert shown[b"state"] == b"queued" and shown[b"body"] == b"hello", shown
assert [job[2] for job in client.qpeek("python", 1)] == [b"hello"]

(queue, taken, body), = client.get_job(["python"])
assert (queue, taken, body) == (b"python", job_id, b"hello")
assert client.working(job_id) == 300
client.nack_job(job_id)

(_, _, _, nacks, more), = client.get_job(["nothing-here", "python"], withcounters=True)
assert (nacks, more) == (1, 0), (nacks, more)
client.ack_job(job_id)
assert client.show(job_id) is None
assert client.get_job(["python"], nohang=True) == []
assert client.get_job(["python"], timeout=50) == []

later = client.add_job("python", b"\x00\xff binary", delay=60, retry=0, replicate=1, ttl=600, maxlen=10)
assert client.qlen("python") == 0, "a delayed job is not queued"
assert client.enqueue(later) == 1
assert client.qlen("python") == 1
assert client.dequeue(later) == 1
assert client.del_job(later) == 1

kept = [client.add_job("python", f"{n}", asynchronous=True) for n in range(5)]
assert [body for _, _, body in client.get_job(["python"], count=3)] == [b"0", b"1", b"2"]
client.fast_ack(*kept)
assert client.qlen("python") == 0

assert client.pause("python", kw_in=True) == b"in"
try:
    client.add_job("python", "refused")
    raise SystemExit("a queue that is paused in input took a job")
except Exception as refused:
    assert "PAUSED" in str(refused), refused
assert client.pause("python", kw_none=True) == b"none"

stat = client.qstat("python", return_dict=True)
assert stat[b"name"] == b"python" and stat[b"len"] == 0, stat
print("pydisque: everything was as it should be")
