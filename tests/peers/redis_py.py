"""redis-py's Lock, told what to do line by line: `take NAME MS`, `wait NAME MS`, `extend MS`, `give_back`.

Answers each line with `yes` or `no`. Its argument is the server's port.
"""

import sys

import redis
from redis.exceptions import LockError

client = redis.Redis(port=int(sys.argv[1]))
lock = None


def get(name, ms, blocking):
    global lock
    wanted = client.lock(name, timeout=int(ms) / 1000, thread_local=False)
    got = wanted.acquire(blocking=blocking)
    lock = wanted if got else lock
    return got


def own(change):
    try:
        return bool(change())
    except LockError:
        return False


VERBS = {
    "take": lambda name, ms: get(name, ms, False),
    "wait": lambda name, ms: get(name, ms, True),
    "extend": lambda ms: own(lambda: lock.extend(int(ms) / 1000, replace_ttl=True)),
    "give_back": lambda: own(lambda: lock.release() is None),
}

for line in sys.stdin:
    verb, *args = line.split()
    print("yes" if VERBS[verb](*args) else "no", flush=True)
