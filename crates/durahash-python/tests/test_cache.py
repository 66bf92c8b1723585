"""durahash.Cache: what it keeps, for how long, and how much of it."""

import contextlib
import copy
import functools
import gc
import inspect
import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import durahash
import pytest
from durahash import from_diskcache

VALUES = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**63, -(2**64), 10**100, 0.0, -0.0, 1.5, math.inf,
    "", "text é", b"", b"\0\xff", (), (1, ("a", (None,))), [], [[1], [b"x"]], {}, {"a": {1: (2.5,)}, (): []},
]  # fmt: skip


@pytest.fixture
def clock():
    return durahash.Clock(1000)


def same(a, b):
    return type(a) is type(b) and repr(a) == repr(b)


def test_values_come_back_as_they_were(path):
    with durahash.Cache(path) as c:
        for n, value in enumerate(VALUES):
            assert c.set(n, value, tag=(n, "tag") if n % 2 else None)
            assert same(c[n], value)
    with durahash.Cache(path) as c:
        assert all(same(c[n], value) for n, value in enumerate(VALUES))
        assert c.get(1, tag=True) == (True, (1, "tag")) and c.get(2, tag=True) == (False, None)
        assert sorted(c) == list(range(len(VALUES))) and same(dict(c.items())[9], 10**100)


def test_keys_are_apart_by_type_and_value():
    keys = [None, True, 1, 1.0, "1", b"1", (1,), [1], ((1,),), (1, "1"), 2**70, -(2**70), "", b"", (), 0.0, -0.0]
    c = durahash.Cache()
    for n, key in enumerate(keys):
        c[key] = n
    assert [c[key] for key in keys] == list(range(len(keys))) and len(c) == len(keys)
    assert all(any(same(key, other) for other in keys) for key in c)

    class Name(str):
        pass

    c["name"] = 1  # what is equal to a str is that key
    assert c[Name("name")] == 1 and Name("x") not in c
    for key in ({}, set(), object(), bytearray(b"1"), ({},)):
        with pytest.raises(TypeError, match="no key of a cache"):
            c[key]
        with pytest.raises(TypeError, match="no key of a cache"):
            c.set("a", 1, tag=key)


def test_a_number_of_numpy_is_a_key():
    numpy = pytest.importorskip("numpy")
    c = durahash.Cache()
    c[numpy.uint8(5)] = c[numpy.float64(1.5)] = "a"
    assert c[5] == c[1.5] == "a" and len(c) == 2
    with pytest.raises(TypeError, match="codec="):
        c["a"] = numpy.float64(1.5)  # it would come back as another type
    c[numpy.uint64(2**63)] = "large"
    assert c[2**63] == "large" and c.decr("n", numpy.uint8(5)) == -5 and c.decr("x", numpy.float64(0.5)) == -0.5


def test_what_would_not_come_back_is_refused():
    class Name(str):
        pass

    c = durahash.Cache()
    loop = []
    loop.append(loop)
    for value in (set(), object(), bytearray(b"1"), Name("a"), [Name("a")], {Name("a"): 1}, {1: [object()]}):
        with pytest.raises(TypeError, match="codec="):
            c["a"] = value
    with pytest.raises(ValueError, match="deep"):
        c["a"] = loop
    with pytest.raises(UnicodeEncodeError):
        c["a"] = ["\ud800"]
    assert len(c) == 0


def test_codecs(path):
    with durahash.Cache(path, codec="json") as c:
        c["json"] = (1, {"a": [None]})
        c["str"] = "plain"
        with pytest.raises(TypeError):
            c["set"] = {1}
    with durahash.Cache(path, codec="pickle") as c:
        c["pickle"] = {1, 2}
        assert c["json"] == [1, {"a": [None]}] and c["pickle"] == {1, 2}
    with durahash.Cache(path, codec=(lambda v: repr(v).encode(), lambda b: eval(b))) as c:
        c["own"] = {3: {4}}
        assert c["own"] == {3: {4}}
    # What may be a program is read only if that is asked for.
    with durahash.Cache(path) as c:
        assert c["json"] == [1, {"a": [None]}] and c["str"] == "plain"
        for key in ("pickle", "own"):
            with pytest.raises(durahash.TypesError, match="another codec"):
                c[key]
            with pytest.raises(durahash.TypesError):
                dict(c.items())
    with pytest.raises(TypeError, match="return bytes, not"):
        durahash.Cache(codec=(str, str))["a"] = {1}
    for codec in ("yaml", 1, (str,), (str, 1), (None, str)):
        with pytest.raises(durahash.OptionsError, match="no codec"):
            durahash.Cache(codec=codec)


def test_msgpack_is_there_if_it_is_installed(monkeypatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "msgpack", None)
        with pytest.raises(ImportError):
            durahash.Cache(codec="msgpack")
    pytest.importorskip("msgpack")
    c = durahash.Cache(codec="msgpack")
    c["a"] = value = {"b": [1, b"2"], 1: {(1, (2,)): [{None: 1.5}]}}
    assert c["a"] == value


def test_pop_leaves_what_it_cannot_decode(path):
    with durahash.Cache(path, codec="pickle") as c:
        c["a"], c["b"] = {1}, "plain"
    with durahash.Cache(path) as c:
        for _ in range(2):
            with pytest.raises(durahash.TypesError, match="another codec"):
                c.pop("a")
        assert c.pop("b", tag=True, expire_time=True) == ("plain", None, None) and c.pop("b") is None
    with durahash.Cache(path, codec="pickle") as c:
        assert c.pop("a") == {1} and len(c) == 0


UNSOUND = """
import durahash, gc, mmap, sys

def nested(depth):
    return b"".join(b"l" + (5 * n + 1).to_bytes(4, "little") for n in reversed(range(depth))) + b"n"

class Entry:
    def __init__(self):
        self.cycle = self
    def __del__(self):
        c["n"]

c = durahash.Cache(sys.argv[1], mode="process")
c["n"] = 1
unsound = [
    b"i123", b"d", b"s\\xff", b"nx", b"tx", b"?", b"l\\1\\0\\0\\0", b"m" + nested(1)[1:], nested(101), nested(100_000),
]
for n, made in enumerate([*unsound, nested(100)]):
    c.set(n, bytes(len(made) - 1), tag=f"tag{n}")
    c[n]
with open(sys.argv[1], "r+b") as file:
    pool = mmap.mmap(file.fileno(), 0)
for n, made in enumerate([*unsound, nested(100)]):
    at = pool.find(b"tag%d" % n + b"b") + len(b"tag%d" % n)
    pool[at : at + len(made)] = made
gc.set_threshold(1, 1, 1)
refused = 0
for n in range(len(unsound)):
    for operation in (c.get, c.pop, c.__getitem__):
        Entry()
        try:
            operation(n)
        except durahash.TypesError:
            refused += 1
assert repr(c[len(unsound)]) == "[" * 100 + "None" + "]" * 100
print(refused == 3 * len(unsound))
"""


def test_what_no_cache_writes_is_refused(path, python):
    with python(UNSOUND, path) as child:
        try:
            assert child.communicate(timeout=60)[0] == "True\n", child.returncode
        finally:
            child.kill()


def test_entries_expire_at_the_instant(path, clock):
    c = durahash.Cache(path, clock=clock)
    assert c.set("a", 1, expire=10) and c.add("b", 2, 20) and c.set("c", 3) and c.set("past", 4, expire=-1)
    assert c.get("a", expire_time=True) == (1, 1010.0) and c.get("c", expire_time=True) == (3, None)
    assert "past" not in c
    clock.advance(9.999)
    assert c["a"] == 1 and c.incr("a") == 2 and c.get("a", expire_time=True) == (2, 1010.0)
    clock.advance(0.001)
    assert "a" not in c and c.get("a", 0) == 0 and not c.touch("a", 5) and not c.delete("a")
    assert c.pop("a", "none", expire_time=True) == ("none", None)
    assert sorted(c) == ["b", "c"] and c.add("a", 5)
    assert c.touch("b", 100) and c.touch("c", 5) and c.touch("a")
    clock.advance(50)
    assert sorted(c) == ["a", "b"]
    c.close()
    # Time does not go back, and the next open goes on.
    c = durahash.Cache(path, clock=durahash.Clock(0))
    assert sorted(c) == ["a", "b"] and c.get("b", expire_time=True) == (2, 1110.0)
    for expire in (math.inf, 1e30, None):
        assert c.set("long", 1, expire) and "long" in c
    with pytest.raises(ValueError, match="nan"):
        c.set("a", 1, math.nan)
    short = durahash.Cache(clock=clock)
    assert short.set("a", 1, 1e-9) and "a" in short and short.set("b", 1, 0) and "b" not in short
    clock.advance(0.001)
    assert "a" not in short


def test_a_sweep_removes_what_has_expired_and_nothing_else(clock):
    c = durahash.Cache(clock=clock)
    for n in range(1000):
        c.set(n, n, expire=1 if n % 2 else 100)
    clock.advance(1)
    before = c.info().expired
    # A thread removes them, too, from the instant on.
    assert c.expire() <= 500 and len(c) == 500 and c.info().expired - before <= 500
    assert sorted(c) == list(range(0, 1000, 2)) and c.info().expired == 500 and c.check() == []


@pytest.mark.parametrize("policy", ["tinylfu", "lru", "s3fifo", "sieve", "random", "soonest", "least-recently-used"])
def test_bounds_hold(path, policy):
    with durahash.Cache(path, max_entries=100, eviction_policy=policy) as c:
        for n in range(1000):
            c[n] = n
            assert len(c) <= 100
        assert c[999] == 999 or policy != "lru"
        info = c.info()
        assert (info.max_entries, info.evicted, info.size_limit) == (100, 900, None)
    with durahash.Cache(path) as c:  # the pool keeps them
        c["new"] = 1
        assert len(c) == 100 and c.info().eviction_policy == ("lru" if "recently" in policy else policy)
    with durahash.Cache(path, max_entries=2**64 - 1) as c:
        c.set("more", 1)
        assert len(c) == 101 and c.info().max_entries is None


def test_a_bound_of_bytes_counts_what_entries_take():
    c = durahash.Cache(size_limit=1 << 20)
    for n in range(300):
        c[n] = bytes(10_000)
        assert c.volume() <= 1 << 20
    assert 90 <= len(c) <= 104
    with pytest.raises(durahash.FullError, match="larger than all.*`size_limit`"):
        c["large"] = bytes(2 << 20)
    c.clear()
    assert c.volume() == 0 and c.check() == []
    full = durahash.Cache(max_entries=1, eviction_policy="none")
    full["a"] = 1
    with pytest.raises(durahash.FullError):
        full["b"] = 2
    assert dict(full.items()) == {"a": 1}
    with pytest.raises(durahash.OptionsError, match="at least 1"):
        durahash.Cache(max_entries=0)
    with pytest.raises(durahash.OptionsError, match="no such policy"):
        durahash.Cache(eviction_policy="least-recently-stored")


def test_tags(clock):
    c = durahash.Cache(clock=clock)
    for n in range(5000):
        c.set(n, str(n), tag=["a", 1, None][n % 3], expire=1 if n < 30 else None)
    clock.advance(1)
    assert c.evict("none") == 0 and c.evict(True) == 0
    assert c.evict("a") == 1657 and c.evict(1) == 1657 and c.expire() is not None and len(c) == 1656
    assert all(n % 3 == 2 for n in c)
    # Who sets the key anew takes the tag away, and who counts on keeps it.
    c.set("n", 1, tag="t")
    assert c.incr("n", 2) == 3 and c.touch("n", 50) and c.get("n", tag=True, expire_time=True) == (3, 1051.0, "t")
    c["n"] = 4
    assert c.evict("t") == 0 and c.pop("n", tag=True) == (4, None)


def test_numbers():
    c = durahash.Cache()
    assert c.incr("n") == 1 and c.decr("n", 5) == -4 and c.incr("x", 0.5) == 0.5 and c.incr("x") == 1.5
    assert c.incr("d", 1, default=10) == 11
    for key, default in (("gone", None), ("gone", None)):
        with pytest.raises(KeyError, match="gone"):
            c.incr(key, default=default)
    c["max"], c["text"], c["big"] = 2**63 - 1, "1", 2**64
    with pytest.raises(OverflowError):
        c.incr("max")
    for key in ("text", "big"):
        with pytest.raises(TypeError):
            c.incr(key)
    with pytest.raises(TypeError):
        c.incr("n", "1")
    assert c["max"] == 2**63 - 1 and c["text"] == "1" and "gone" not in c


def test_lookups_are_counted_if_that_is_asked_for():
    c = durahash.Cache()
    c["a"] = 1
    c.get("a"), c.get("b")
    assert c.stats() == (0, 0)
    c["a"], c.get("a", tag=True), c.get("b"), c.get("b", expire_time=True)
    with pytest.raises(KeyError):
        c["b"]
    for key in (("a", "b"), (), None):
        with pytest.raises(KeyError) as caught:
            del c[key]
        assert caught.value.args == (key,)
    assert c.stats(enable=False) == (2, 3) and c.get("a") == 1 and c.stats(reset=True) == (2, 3) and c.stats() == (0, 0)


def test_memoize(clock):
    c, calls = durahash.Cache(clock=clock), []

    @c.memoize(expire=10, tag="f", ignore={"log", 1})
    def f(a, ignored=None, *more, b=2, log=None):
        calls.append(a)
        return (a, b)

    assert f(1) == f(1) == f(1, 5) == f(1, log=print) == (1, 2) and calls == [1]
    assert f(1.0) == (1.0, 2) and f(1, b=3) == (1, 3) and f([1]) == f([1]) and calls == [1, 1.0, 1, [1]]
    assert c[f.__cache_key__(1, log=2)] == (1, 2) and f.__wrapped__(9) == (9, 2)
    with pytest.raises(TypeError):
        f({})
    assert c.evict("f") == 4 and f(1) and len(c) == 1
    clock.advance(10)
    f(1)
    assert calls[-2:] == [1, 1]

    @c.memoize(name="none", typed=True)
    def none(flag):
        calls.append(flag)

    class Flag(int):
        pass

    assert none(1) is none(1) is none(Flag(1)) is None and calls[-2:] == [1, 1]
    with pytest.raises(TypeError, match="call it"):
        c.memoize(f)
    never = c.memoize(name="never", expire=0)(lambda: calls.append("never"))
    never(), never()
    assert calls[-2:] == ["never", "never"]
    with pytest.raises(TypeError, match="places and names"):
        c.memoize(ignore="log")
    for nameless in (lambda: 1, functools.partial(f)):
        with pytest.raises(TypeError, match="name="):
            c.memoize()(nameless)
        c.memoize(name="given")(nameless)


def test_memoize_works_on_where_nothing_can_be_kept_or_read(path):
    def made(cache):
        return cache.memoize(name="f")(lambda n: {n})

    with durahash.Cache(path, codec="pickle", max_entries=1, eviction_policy="none") as c:
        f = made(c)
        assert f(1) == {1} and f(2) == {2} and len(c) == 1
    with durahash.Cache(path, codec=(lambda v: repr(v).encode(), lambda b: eval(b))) as c:
        f = made(c)
        assert f(1) == {1} and c[f.__cache_key__(1)] == {1}
    with durahash.Cache(path, codec="pickle", read_only=True) as c:
        assert made(c)(1) == {1} and made(c)(2) == {2}
    with pytest.raises(durahash.ClosedError):
        made(c)(1)


def test_threads_share_a_cache(path):
    c = durahash.Cache(path, max_entries=500)
    mine, errors = [0] * 4, []

    def work(n):
        try:
            for i in range(2000):
                mine[n] += c.add(("lock", i % 50), n)
                c.set((n, i), b"x" * (i % 300), expire=0.001 if i % 3 else None, tag=n)
                c.get((n, i - 1))
                if i % 500 == 0:
                    c.evict(n), c.expire(), list(c)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert errors == [] and sum(mine) >= 50 and len(c) <= 500 and c.check() == []
    numbers = durahash.Cache()
    threads = [threading.Thread(target=lambda: [numbers.incr("n") for _ in range(2000)]) for _ in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert numbers["n"] == 8000


KILLED = """
import sys, durahash
c = durahash.Cache(sys.argv[1], mode=sys.argv[2], **({"max_entries": 1000} if sys.argv[3] == "bound" else {}))
for n in range(10**9):
    c.set(n, [str(n)] * 20, expire=1e6 if n % 2 else None, tag=n % 10)
    if n % 100 == 0:
        print(n, flush=True)
"""


@pytest.mark.parametrize("mode, bound", [("process", "no"), ("interval", "no"), ("strict", "no"), ("interval", "bound")])
def test_a_kill_loses_nothing_that_returned(path, python, mode, bound):
    enough = 300 if mode == "strict" else 3000
    with python(KILLED, path, mode, bound) as child:
        for line in child.stdout:
            if int(line) >= enough:
                child.send_signal(signal.SIGKILL)
                break
        returned = int([line, *child.stdout.read().split()][-1])
    with durahash.Cache(path) as c:
        assert c.info().recovered and c.check() == []
        there = dict(c.items())
        assert all(value == [str(n)] * 20 for n, value in there.items())
        if bound == "bound":
            assert len(c) <= 1000 and c.info().max_entries == 1000
        else:
            assert set(range(returned + 1)) <= set(there) and c.evict(3) >= returned // 10
        n = max(there)
        assert c.get(n, expire_time=True)[1] is None or n % 2


def test_a_forked_child_is_told_what_to_do(path):
    c = durahash.Cache(path)
    c["a"] = 1
    pairs = c.items()
    pid = os.fork()
    if pid == 0:
        try:
            operations = [
                lambda: c["a"], lambda: c.set("a", 2), lambda: "a" in c, lambda: c.incr("n"), lambda: c.evict("t"),
                lambda: next(pairs), c.expire, c.info, c.clear, c.close,
            ]  # fmt: skip
            refused = 0
            for operation in operations:
                try:
                    operation()
                except durahash.ForkedError:
                    refused += 1
            closed = c.closed
            del c, pairs, operations, operation
            gc.collect()
            os._exit(0 if refused == 10 and closed else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    c["b"] = 2
    assert dict(c.items()) == {"a": 1, "b": 2} and c.check() == []


def test_a_closed_cache_says_so(path):
    c = durahash.Cache(path)
    c["a"] = 1
    pairs = iter(c)
    with pytest.raises(durahash.LockedError):
        durahash.Cache(path)
    c.close()
    c.close()
    for operation in (lambda: c["a"], lambda: c.set("a", 1), lambda: next(pairs), c.info, c.expire, lambda: len(c)):
        with pytest.raises(durahash.ClosedError):
            operation()
    assert c.closed and "closed" in repr(c) and repr(str(path))[1:-1] in repr(c)
    with durahash.Cache(path, read_only=True) as c:
        assert c["a"] == 1 and c.get("b") is None
        for operation in (lambda: c.set("a", 2), lambda: c.pop("a"), lambda: c.incr("a"), c.clear):
            with pytest.raises(durahash.ReadOnlyError):
                operation()


def test_pools_of_other_kinds_are_refused(path, tmp_path):
    durahash.Map(path, key=bytes, value=bytes).close()
    with pytest.raises(durahash.TypesError):
        durahash.Cache(path)
    with durahash.Cache(tmp_path / "cache.pool") as c:
        # Not bytes: those of a program in Rust would be read as objects.
        assert (c.info().key_type, c.info().value_type) == ("Python object", "expiring Python object")
    for options in ({}, {"key": bytes, "value": bytes}, {"read_only": True}):
        with pytest.raises(durahash.TypesError, match="Python object.*durahash.Cache|that of a cache"):
            durahash.Map(tmp_path / "cache.pool", **options)
    with pytest.raises(durahash.NotFoundError):
        durahash.Cache(tmp_path / "none", create=False)
    with pytest.raises(durahash.ExistsError):
        durahash.Cache(path, create=True)
    with pytest.raises(durahash.NotAPoolError, match="directory"):
        durahash.Cache(tmp_path)


def test_what_a_new_user_tries(path, tmp_path):
    c = durahash.Cache(path)
    for attempt in (lambda: copy.copy(c), lambda: pickle.dumps(c)):
        with pytest.raises(TypeError, match="pass its path"):
            attempt()
    c["large"] = large = bytes(range(256)) * 100_000
    assert c["large"] == large and c.get("large", tag=True) == (large, None)
    with pytest.raises(KeyError):
        del c["gone"]
    c.backup(tmp_path / "copy.pool")
    with durahash.Cache(tmp_path / "copy.pool") as copied:
        assert copied["large"] == large
    del c["large"]
    assert len(c) == 0 and not c
    if sys.version_info >= (3, 10):
        assert "max_entries" in inspect.signature(durahash.Cache).parameters


def test_a_codec_that_refers_to_its_cache_is_collected(path):
    class Store:
        def __init__(self):
            self.cache = durahash.Cache(path, codec=(self.encode, self.decode))
            self.pairs = self.cache.items()

        def encode(self, value):
            return repr(value).encode()

        def decode(self, value):
            return eval(value)

    store = Store()
    store.cache["a"] = {1}
    assert store.cache["a"] == {1}
    del store
    gc.collect()
    assert len(durahash.Cache(path)) == 1


def test_a_codec_and_a_finalizer_may_use_the_cache(python):
    program = """
        import durahash, gc
        c = durahash.Cache(codec=(lambda v: (c.incr("encoded"), repr(v).encode())[1], lambda b: (c.incr("decoded"), eval(b))[1]))
        class Entry:
            def __init__(self):
                self.cycle = self
            def __del__(self):
                c["gone"] = (1,)
        gc.set_threshold(1, 1, 1)
        for n in range(200):
            Entry()
            c[n] = (n, [n])
            assert c[n] == (n, [n]) and c.get(n, tag=True)[0] == (n, [n])
        print(c["gone"], c["encoded"] >= 200, c["decoded"] >= 400)
    """
    with python(textwrap.dedent(program)) as child:
        try:
            out, err = child.communicate(timeout=60)
            assert out == "(1,) True True\n", err
        finally:
            child.kill()


@pytest.fixture
def old(tmp_path):
    """What diskcache leaves, made without it: its table, and a file of each large value."""
    import sqlite3

    folder = tmp_path / "old"
    (folder / "ab").mkdir(parents=True)
    (folder / "ab/1.val").write_bytes(b"x" * 40_000)
    (folder / "ab/2.val").write_text("é" * 40_000, encoding="utf-8")
    (folder / "ab/3.val").write_bytes(pickle.dumps({"a": [1] * 20_000}))
    database = sqlite3.connect(folder / "cache.db")
    database.execute("PRAGMA journal_mode = wal")
    columns = "key BLOB, raw INTEGER, store_time REAL, expire_time REAL, tag BLOB, mode INTEGER, filename TEXT, value BLOB"
    database.execute(f"CREATE TABLE Cache (rowid INTEGER PRIMARY KEY, {columns})")
    tuple_key = pickle.dumps(("f", 1))
    rows = [
        ("text", 1, None, "t", 1, None, "value"),
        (b"bytes", 1, None, None, 1, None, b"\0"),
        (5, 1, 2000.0, 7, 1, None, 2.5),
        (1.5, 1, 500.0, None, 1, None, "expired"),
        ("large", 1, None, None, 2, "ab/1.val", None),
        ("long", 1, None, None, 3, "ab/2.val", None),
        ("lost", 1, None, None, 2, "ab/9.val", None),
        (tuple_key, 0, None, None, 1, None, 1),
        ("dict", 1, None, None, 4, "ab/3.val", None),
        ("set", 1, None, None, 4, None, pickle.dumps({1, 2})),
        ("bad", 1, None, None, 4, None, b"no pickle"),
        ("none", 1, None, None, 4, None, pickle.dumps(functools.partial)),
    ]
    for n, (key, raw, *rest) in enumerate(rows):
        database.execute("INSERT INTO Cache VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", (key, raw, n, *rest))
    database.commit()
    database.close()
    return folder


def test_a_cache_of_diskcache_is_copied(old, clock):
    c = durahash.Cache(clock=clock)
    copied, left = from_diskcache.copy(old, c, now=1000)
    assert (copied, sum(left.values()), left["has expired"]) == (5, 7, 1)
    assert left["a pickle, see --allow-pickle"] == 5 and left["its file is gone, or is none that can be read"] == 1
    assert c.get("text", tag=True) == ("value", "t") and c[b"bytes"] == b"\0" and c["large"] == b"x" * 40_000
    assert c.get(5, expire_time=True, tag=True) == (2.5, 2000.0, 7) and c["long"] == "é" * 40_000
    copied, left = from_diskcache.copy(old, c, allow_pickle=True, now=1000)
    assert copied == 7 and c["f", 1] == 1 and c["dict"] == {"a": [1] * 20_000}
    assert {reason.split(":")[0] for reason in left} >= {"a pickle that cannot be read"} and "set" not in c
    every = durahash.Cache(codec="pickle")
    assert from_diskcache.copy(old, every, allow_pickle=True, now=1000)[0] == 9 and every["set"] == {1, 2}


def test_entries_that_are_damaged_are_left_out(old, tmp_path):
    import sqlite3

    (tmp_path / "secret").write_text("secret")
    (old / "ab/out.val").symlink_to(tmp_path / "secret")
    os.mkfifo(old / "ab/fifo.val")
    (old / "ab/bad.val").write_bytes(b"\xff")
    before = sorted(old.rglob("*"))
    deep = []
    for _ in range(200):
        deep = [deep]
    rows = [
        ("outside", 1, None, None, 2, str(tmp_path / "secret"), None),
        ("up", 1, None, None, 2, "../secret", None),
        ("link", 1, None, None, 2, "ab/out.val", None),
        ("fifo", 1, None, None, 2, "ab/fifo.val", None),
        ("number", 1, None, None, 2, "ab\0", None),
        ("no text", 1, None, None, 3, "ab/bad.val", None),
        ("no bytes", 1, None, None, 3, None, "text"),
        ("time", 1, "soon", None, 1, None, 1),
        ("mode", 1, None, None, 9, None, 1),
        ("large", 1, None, None, 1, None, bytes(1 << 20)),
        ("deep", 1, None, None, 4, None, pickle.dumps(deep)),
    ]
    with contextlib.closing(sqlite3.connect(old / "cache.db")) as database:
        for row in rows:
            database.execute("INSERT INTO Cache VALUES (NULL, ?, ?, 0, ?, ?, ?, ?, ?)", row)
        database.execute("UPDATE Cache SET value = CAST(X'ff' AS TEXT) WHERE key = 'text'")
        database.commit()
        c = durahash.Cache(clock=durahash.Clock(1000), size_limit=1 << 20)
        copied, left = from_diskcache.copy(old, c, allow_pickle=True, now=1000)  # from the log that is there
    assert copied == 6 and left["its file is outside of the folder"] == 3 and sum(left.values()) == 17
    assert sum(count for reason, count in left.items() if reason.startswith("FullError")) == 1
    assert sorted(old.rglob("*")) == before
    assert from_diskcache.copy(old, durahash.Cache(), now=1000)[0] and sorted(old.rglob("*")) == before


def test_the_program_that_copies(old, path, tmp_path):
    run = [sys.executable, "-m", "durahash.from_diskcache"]
    ran = subprocess.run([*run, old, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stdout) == (1, "4 entries copied\n") and "5 left out: a pickle" in ran.stderr
    assert "2 left out: has expired" in ran.stderr
    with durahash.Cache(path) as c:
        assert len(c) == 4
    (tmp_path / "fan").mkdir()
    old.rename(tmp_path / "fan/000")  # as a FanoutCache has them
    ran = subprocess.run([*run, tmp_path / "fan", tmp_path / "b.pool"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert ran.stdout == "4 entries copied\n"
    again = subprocess.run([*run, tmp_path / "fan", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert again.returncode != 0 and "already exists" in again.stderr and "Traceback" not in again.stderr
    (tmp_path / "fan/000/cache.db").write_bytes(b"no database" * 1000)
    broken = subprocess.run([*run, tmp_path / "fan", tmp_path / "c.pool"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert broken.returncode == 1 and "not a database" in broken.stderr and "remove it" in broken.stderr
    with pytest.raises(FileNotFoundError, match="no cache.db"):
        from_diskcache.copy(tmp_path, durahash.Cache())
