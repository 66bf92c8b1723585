"""Threads share a map."""

import sys
import threading

import durahash
import pytest


def run(count, f):
    errors = []

    def guarded(n):
        try:
            f(n)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("mode", ["process", "interval", "strict"])
def test_no_change_is_lost(path, mode):
    rounds = 50 if mode == "strict" else 2000
    m = durahash.Map(path, key=str, value=int, mode=mode)
    lists = durahash.Map(key=str, value="json")

    def work(n):
        for i in range(rounds):
            m.increment("count")
            m.update("sum", lambda old: old + n, default=0)
            lists.update("all", lambda old: old + [n], default=[]) if i % 100 == 0 else None
            m[f"{n}-{i}"] = i
            assert m[f"{n}-{i}"] == i

    run(4, work)
    assert m["count"] == 4 * rounds and m["sum"] == 6 * rounds and len(m) == 4 * rounds + 2
    assert sorted(lists["all"]) == sorted([0, 1, 2, 3] * ((rounds + 99) // 100))


def test_one_of_several_adds():
    m = durahash.Map(key=int, value=int)
    mine = [[] for _ in range(4)]

    def work(n):
        for i in range(0, 20_000, 500):
            mine[n] += m.add_if_absent_many(range(i, i + 500), [n] * 500)

    run(4, work)
    assert all(sum(added) == 1 for added in zip(*mine))


def test_a_close_waits_for_nobody_and_harms_nobody(path):
    m = durahash.Map(path, key=int, value=int)
    begun = threading.Barrier(4)

    def work(n):
        begun.wait()
        if n == 0:
            m.close()
            return
        with pytest.raises(durahash.ClosedError):
            for i in range(10**9):
                m.put_many(((n << 32) + j, j) for j in range(i * 1000, i * 1000 + 1000))

    run(4, work)
    m = durahash.Map(path)
    assert m.check() == [] and all(key & 0xFFFFFFFF == value for key, value in m.items())


def test_what_is_large_is_copied_without_the_interpreters_lock():
    large = bytes(32 << 20)
    m, c, edges = durahash.Map(key=int, value=bytes), durahash.Cache(), durahash.MultiMap(key=int, value=int)
    edges.add_many([1] * 100_000, range(100_000))
    edges.add(2, 3)

    def does_another_run(operation):
        m[1] = c[1] = large
        gate, ran = threading.Lock(), []
        gate.acquire()
        other = threading.Thread(target=lambda: (gate.acquire(), ran.append(True)))
        other.start()
        gate.release()
        operation()
        done = bool(ran)
        other.join()
        return done

    operations = [
        lambda: m[1], lambda: m.pop(1), lambda: m.update(1, lambda _: b""), lambda: c[1], lambda: c.get(1, tag=True),
        lambda: c.pop(1), lambda: c.delete(1), lambda: c.touch(1, 60), lambda: c.add(1, 2), lambda: edges.get_all(1),
    ]  # fmt: skip
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # by itself a thread goes on for so long
    try:
        for n, operation in enumerate(operations):
            assert any(does_another_run(operation) for _ in range(100)), n
        assert not does_another_run(lambda: (c.get(2), m.get(2), edges.get_all(2)))
    finally:
        sys.setswitchinterval(interval)


def test_other_threads_go_on_while_one_waits():
    """A function that update runs may wait for another thread that uses the map, also for the same key."""
    m = durahash.Map(key=str, value=int)

    def f(old):
        if old == 0:
            other = threading.Thread(target=m.__setitem__, args=("a", 10))
            other.start()
            other.join()
        return old + 1

    assert m.update("a", f, default=0) == 11
