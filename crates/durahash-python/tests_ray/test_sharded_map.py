"""A map in several pools is a map, loses nothing when its actors are killed, and may be put into other shards."""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading

import durahash
import pytest
import ray
from durahash.ray import ShardedMap


def pools(volumes):
    return sorted(path.name for directory in volumes.values() for path in directory.glob("shard-*.pool"))


def pids(m):
    return ray.get([shard.pid.remote() for shard in m._view[1]])


def test_it_is_a_map_that_is_there_again(volumes):
    with ShardedMap(volumes, shards=3, key=str, value="json") as m:
        m["one"] = [1]
        m.put_many({str(n): n for n in range(2000)})
        m.put_many(("x", "y"), [None, {"a": 1}])
        assert m["one"] == [1] and m.get("x", 5) is None and m.get("none", 5) == 5
        assert m.get_many(["7", "none", "y", "7"], default=-1) == [7, -1, {"a": 1}, 7]
        assert m.contains_many(["x", "none"]) == [True, False] and "one" in m and "none" not in m
        assert m.remove_many(["x", "none", "y"]) == [True, False, True]
        del m["one"]
        for missing in (lambda: m["one"], lambda: m.__delitem__("one")):
            with pytest.raises(KeyError):
                missing()
        assert len(m) == 2000 and dict(m.items()) == {str(n): n for n in range(2000)}
        assert set(m) == set(map(str, range(2000)))
        assert all(500 < stats.entries < 850 for stats in m.stats())
        assert len(pools(volumes)) == 3 and len(list(volumes["disk1"].glob("shard-*"))) == 2
        m.sync()
    with pytest.raises(durahash.ClosedError):
        m["7"]
    with ShardedMap(volumes) as m:
        assert m["7"] == 7 and len(m) == 2000 and not any(stats.recovered for stats in m.stats())


def test_the_page(tmp_path):
    """Its program runs."""
    text = (pathlib.Path(__file__).parents[3] / "docs/python.md").read_text()
    program = re.search(r"^```py\n(.*?)^```", text, re.M | re.S)[1]
    program = program.replace("/data/", f"{tmp_path}/1/").replace("/mnt/", f"{tmp_path}/2/")
    exec(compile(program, "docs/python.md", "exec"), {})
    assert len(list(tmp_path.rglob("shard-*.pool"))) == 6


def test_where_keys_lie_does_not_change():
    """A pool of today is one of tomorrow."""
    positions = [list(memoryview(part).cast("q")) for part in durahash._native.split("str", "abcdefgh", 3)]
    assert positions == [[4, 6, 7], [0, 1, 2, 3], [5]]
    numpy = pytest.importorskip("numpy")
    of_list = durahash._native.split("u64", list(range(1000)), 7)
    assert of_list == durahash._native.split("u64", numpy.arange(1000, dtype="u8"), 7)


def test_arrays_are_scattered_and_gathered(tmp_path):
    numpy = pytest.importorskip("numpy")
    count = 20_000
    with ShardedMap(tmp_path, shards=3, key="S16", value=bytes) as m:
        keys = numpy.random.default_rng(1).integers(0, 256, (count, 16), dtype="u1")
        values = numpy.arange(count).astype("S8")
        m.put_many(keys, values)
        out, missing = numpy.zeros(count + 1, "S8"), numpy.zeros(count + 1, bool)
        asked = numpy.concatenate([keys, numpy.zeros((1, 16), "u1")])
        assert m.get_many(asked, out=out, missing=missing) == count
        assert (out[:-1] == values).all() and missing.tolist() == [False] * count + [True]
        assert m.get_many(asked[-2:], default=0) == [values[-1].ljust(8, b"\0"), 0]
        with pytest.raises(ValueError, match="one row for each"):
            m.put_many(keys, values[:-1])
        with pytest.raises(TypeError, match="S16 is wanted"):
            m.put_many([1], [b""])


def test_an_error_of_a_shard_is_that_of_the_pool(tmp_path):
    with ShardedMap(tmp_path, shards=2, key=int, value=bytes, max_bytes=1 << 20, mode="process") as m:
        with pytest.raises(durahash.FullError, match="shard-"):
            m.put_many(range(4000), [bytes(1000)] * 4000)
        with pytest.raises(durahash.LockedError, match="catalog.pool"):
            ShardedMap(tmp_path)
    with pytest.raises(durahash.TypesError, match="i64"):
        ShardedMap(tmp_path, key=str)
    with pytest.raises(durahash.OptionsError, match="reshard"):
        ShardedMap(tmp_path, shards=3)
    (tmp_path / "catalog.pool").rename(tmp_path / "other")
    with pytest.raises(durahash.OptionsError, match="no catalog"):
        ShardedMap(tmp_path, key=int, value=bytes)
    with pytest.raises(durahash.OptionsError, match="needs its key="):
        ShardedMap(tmp_path / "new")
    with pytest.raises(durahash.OptionsError, match="ray start"):
        ShardedMap({"disk9": tmp_path}, key=int, value=int)


@pytest.mark.parametrize("options", [{}, {"live_image": True}, {"mode": "process"}])
def test_every_actor_is_killed_under_load_and_nothing_is_lost(volumes, options):
    threads, keys_each = 2, 5000
    acknowledged, batches = [{} for _ in range(threads)], [0] * threads
    errors, over = [], threading.Event()

    def load(thread):
        rng, n = random.Random(thread), 0
        try:
            while not over.is_set():
                n += 1
                keys = [rng.randrange(keys_each) * threads + thread for _ in range(50)]
                m.put_many(keys, [n] * len(keys))
                acknowledged[thread].update(dict.fromkeys(keys, n))
                batches[thread] = n
                # A read may not be older than what was acknowledged.
                assert m.get_many(keys) == [n] * len(keys)
        except BaseException as e:
            errors.append(e)

    with ShardedMap(volumes, shards=3, key=int, value=int, **options) as m:
        workers = [threading.Thread(target=load, args=(n,)) for n in range(threads)]
        for worker in workers:
            worker.start()
        try:
            for i in range(3):
                before, done = pids(m), list(batches)
                catalog = ray.get(m._catalog.pid.remote())
                os.kill(before[i], signal.SIGKILL)
                if i == 2:
                    os.kill(catalog, signal.SIGKILL)
                after = pids(m)
                assert after[i] != before[i] and after[:i] + after[i + 1 :] == before[:i] + before[i + 1 :]
                while not errors and min(now - then for now, then in zip(batches, done)) < 20:
                    over.wait(0.01)
                assert m.stats()[i].recovered
        finally:
            over.set()
            for worker in workers:
                worker.join()
        assert errors == [] and ray.get(m._catalog.pid.remote()) != catalog
        want = {key: n for a in acknowledged for key, n in a.items()}
        assert len(want) > 1000 and dict(m.items()) == want
    for path in [path for directory in volumes.values() for path in directory.glob("shard-*.pool")]:
        with durahash.Map(path) as pool:
            assert pool.check() == []


def test_a_reshard_under_load(volumes):
    """Writers wait, readers go on, and actors and copies of the map find the new shards."""
    written, errors, over = {}, [], threading.Event()

    @ray.remote
    class Reader:
        def __init__(self, m):
            self.map = m

        def get_many(self, keys):
            return self.map.get_many(keys)

    def load():
        try:
            n = 0
            while not over.is_set():
                n += 1
                m.put_many(range(n, n + 20), [n] * 20)
                written.update(dict.fromkeys(range(n, n + 20), n))
        except BaseException as e:
            errors.append(e)

    with ShardedMap(volumes, shards=2, key=int, value=int) as m:
        m.put_many(range(-20_000, 0), range(20_000))
        written.update(zip(range(-20_000, 0), range(20_000)))
        reader = Reader.remote(m)
        worker = threading.Thread(target=load)
        worker.start()
        try:
            for shards in (5, 1, 3):
                m.reshard(shards)
                assert len(m.stats()) == shards == len(pools(volumes))
                assert ray.get(reader.get_many.remote([-1, -20_000])) == [19_999, 0]
        finally:
            over.set()
            worker.join()
        assert errors == [] and dict(m.items()) == written
        keys = list(written)
        assert ray.get(reader.get_many.remote(keys)) == list(written.values())
    with ShardedMap(volumes) as m:
        assert dict(m.items()) == written


def test_actors_are_killed_in_a_reshard(volumes):
    """Those that send come back, still frozen, and send again."""
    with ShardedMap(volumes, shards=3, key=int, value=int) as m:
        m.put_many(range(30_000), range(30_000))
        before, errors, send = pids(m), [], m._send

        def kill(new):
            while ray.get(new[0].sync.remote()) == 0:
                pass
            for pid in before:
                os.kill(pid, signal.SIGKILL)

        def write():
            try:
                m.put_many(range(30_000, 30_100), range(100))
            except BaseException as e:
                errors.append(e)

        writer = threading.Thread(target=write)

        def killed(old, new):
            killer = threading.Thread(target=kill, args=(new,))
            for thread in (writer, killer):
                thread.start()
            send(old, new)
            killer.join()
            assert set(ray.get([shard.pid.remote() for shard in old])).isdisjoint(before)
            assert ray.get([shard.write.remote("put_many", [-1], [-1]) for shard in old]) == [None] * 3

        m._send = killed
        m.reshard(4)
        writer.join()
        assert errors == [] and len(m) == 30_100
        assert m.get_many(range(30_100)) == [*range(30_000), *range(100)]


DRIVER = """
import os, signal, sys, ray
ray.init(sys.argv[1], log_to_driver=False)
from durahash.ray import ShardedMap
m = ShardedMap({"disk1": sys.argv[2], "disk2": sys.argv[3]})
def die(*args, **more):
    os.kill(os.getpid(), signal.SIGKILL)
step = getattr(ShardedMap, sys.argv[4])
def cut(*args):
    if sys.argv[5] == "after":
        step(*args)
    die()
setattr(ShardedMap, sys.argv[4], cut)
m.reshard(4)
"""


@pytest.mark.parametrize(
    "step, when, shards",
    [
        ("_send", "before", 3),
        ("_send", "after", 3),
        ("_switch", "before", 3),
        ("_switch", "after", 4),
        ("_discard", "before", 4),
    ],
)
def test_a_reshard_that_is_cut_off(volumes, cluster, step, when, shards):
    """The process that reshards is killed, and the next one finds the old shards or the new ones, with all entries."""
    with ShardedMap(volumes, shards=3, key=int, value=int) as m:
        m.put_many(range(5000), range(5000))
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), cluster, *map(str, volumes.values()), step, when]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ran.returncode == -signal.SIGKILL, ran.stderr.decode()
    with ShardedMap(volumes) as m:
        assert len(m.stats()) == shards == len(pools(volumes))
        assert sorted(m.items()) == [(n, n) for n in range(5000)]
        m[5000] = 5000
        m.reshard(2)
        assert len(m) == 5001 and len(pools(volumes)) == 2


def test_a_reshard_that_fails_leaves_the_old_shards(volumes):
    with ShardedMap(volumes, shards=3, key=int, value=int) as m:
        m.put_many(range(5000), range(5000))

        def fail(*_):
            raise KeyboardInterrupt

        m._switch = fail
        with pytest.raises(KeyboardInterrupt):
            m.reshard(4)
        m[5000] = 5000
        assert len(m.stats()) == 3 == len(pools(volumes)) and m.get_many([0, 5000]) == [0, 5000]
        with pytest.raises(durahash.OptionsError):
            m.reshard(0)
        del m._switch
        m.reshard(1)
        assert m.get_many([0, 5000]) == [0, 5000]
