"""Raw commands by the usual Redis client for Python, with its defaults: python redis_flow.py PORT"""

import sys

import redis

for protocol in (None, 2, 3):
    options = {} if protocol is None else {"protocol": protocol}
    client = redis.Redis(port=int(sys.argv[1]), **options)
    assert client.ping()
    added = client.execute_command("ADDJOB", "redis-py", "hello", 0)
    (queue, taken, body), = client.execute_command("GETJOB", "FROM", "redis-py")
    assert (queue, taken, body) == (b"redis-py", added, b"hello")
    assert client.execute_command("ACKJOB", taken) == 1
    assert client.execute_command("GETJOB", "NOHANG", "FROM", "redis-py") is None

    # Its default pipeline is a transaction.
    for pipeline in (client.pipeline(), client.pipeline(transaction=False)):
        for number in range(100):
            pipeline.execute_command("ADDJOB", "redis-py", f"{number}", 0)
        ids = pipeline.execute()
        assert len(set(ids)) == 100
        jobs = client.execute_command("GETJOB", "COUNT", 100, "FROM", "redis-py")
        assert [taken for _, taken, _ in jobs] == ids
        assert [int(body) for _, _, body in jobs] == list(range(100)), "in the order in which they were added"
        assert client.execute_command("ACKJOB", *ids) == 100

    pipeline = client.pipeline()
    pipeline.execute_command("ADDJOB", "redis-py", "never", 0)
    pipeline.execute_command("NOSUCH")
    try:
        pipeline.execute()
        raise AssertionError("an unknown command in a transaction is an error")
    except redis.ResponseError as error:
        assert "unknown command" in str(error), error
    assert client.execute_command("QLEN", "redis-py") == 0, "nothing of a refused transaction happens"
    assert client.info()["registered_jobs"] == 0
    client.close()
print("redis-py: everything was as it should be")
