"""A map is a dictionary, whatever its keys and values are."""

import json
import pickle
import random
from collections.abc import MutableMapping

import durahash
import pytest

KEYS = {
    "i64": lambda r: r.randrange(-(2**63), 2**63),
    "u64": lambda r: r.randrange(2**64),
    "u16": lambda r: r.randrange(2**16),
    "i8": lambda r: r.randrange(-128, 128),
    "f64": lambda r: r.uniform(-1e9, 1e9),
    "str": lambda r: "ü" * r.randrange(3) + str(r.random()),
    "bytes": lambda r: r.getrandbits(80).to_bytes(10, "little")[: r.randrange(11)],
    "S16": lambda r: r.getrandbits(128).to_bytes(16, "little"),
}
VALUES = dict(
    KEYS,
    f32=lambda r: r.randrange(1000) / 4,
    bool=lambda r: r.random() < 0.5,
    S32=lambda r: r.getrandbits(256).to_bytes(32, "little"),
    bytes=lambda r: bytes(r.randrange(1000)),
    json=lambda r: {"a": [r.random(), None], "ü": True},
    pickle=lambda r: {r.random(), (1, 2)},
)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", VALUES)
def test_it_does_what_a_dict_does(path, key, value):
    r = random.Random(1)
    want = {}
    keys = [KEYS[key](r) for _ in range(60)]
    with durahash.Map(path, key=key, value=value, mode="process") as m:
        for _ in range(400):
            k, v = r.choice(keys), VALUES[value](r)
            what = r.randrange(6)
            if what < 2:
                m[k] = want[k] = v
            elif what == 2:
                assert m.pop(k, None) == want.pop(k, None)
            elif what == 3:
                assert m.setdefault(k, v) == want.setdefault(k, v)
            elif what == 4:
                assert (k in m, m.get(k, 7)) == (k in want, want.get(k, 7))
            elif k in want:
                assert m[k] == want[k]
                del m[k], want[k]
            else:
                with pytest.raises(KeyError):
                    m[k]
                with pytest.raises(KeyError):
                    del m[k]
        assert len(m) == len(want)
        assert dict(m.items()) == want == dict(m)
        assert sorted(map(repr, m.values())) == sorted(map(repr, want.values()))
        assert m == want and m.check() == []
    with durahash.Map(path, key=key, value=value) as m:
        assert m == want
        m.clear()
        assert not m and list(m.keys()) == []


def test_it_is_a_mutable_mapping():
    m = durahash.Map(key=str, value=int)
    assert isinstance(m, MutableMapping) and isinstance(m, durahash.Map)
    m.update({"a": 1}, b=2)
    m.update([("c", 3)])
    m |= {"d": 4}
    assert m.keys() & {"a", "z"} == {"a"}
    assert ("b", 2) in m.items() and 3 in m.values()
    key, value = m.popitem()
    assert key not in m and value in (1, 2, 3, 4)
    m.clear()
    with pytest.raises(KeyError):
        m.popitem()
    with pytest.raises(TypeError):
        hash(m)
    values = durahash.Map(key=str, value="json")
    assert values.setdefault("a") is None and "a" in values
    values["b"] = 1

    class Clears:
        def __eq__(self, other):
            values.clear()

    assert Clears() not in values.values()


def test_pop_leaves_what_it_cannot_decode(path):
    with durahash.Map(path, key=str, value=(lambda x: x, lambda b: b)) as m:
        m["a"] = b"1 +"
    with durahash.Map(path, key=str, value=(lambda x: x, eval)) as m:
        for operation in (lambda: m.pop("a"), lambda: m.pop("a", None), m.popitem):
            with pytest.raises(SyntaxError):
                operation()
        assert len(m) == 1
        m["a"] = b"1 + 1"
        assert m.pop("a") == 2 and m.pop("a", 5) == 5 and not m


def test_types_are_python_types_or_names():
    import struct

    for key, name in [(int, "i64"), ("uint32", "u32"), (str, "str"), (bytes, "bytes"), ("S20", "S20")]:
        assert durahash.Map(key=key, value=float).key == name
    assert durahash.Map(key=int, value=json).value == "json"
    assert durahash.Map(key=int, value=pickle).value == "pickle"
    pair = (lambda x: struct.pack("<d", x), lambda b: struct.unpack("<d", b)[0])
    m = durahash.Map(key=str, value=pair)
    m["pi"] = 3.25
    assert m["pi"] == 3.25
    for bad in ("S0", "u7", "list", dict, 5, (str, 1), "json", "pickle"):
        with pytest.raises(ValueError):
            durahash.Map(key=bad, value=int)
    with pytest.raises(ValueError, match="key="):
        durahash.Map(key=int)


def test_what_is_no_key_or_value_is_refused():
    m = durahash.Map(key="u8", value=bytes)
    for bad, error in [("1", TypeError), (1.0, TypeError), (256, OverflowError), (-1, OverflowError), (None, TypeError)]:
        for operation in (m.get, m.pop, lambda k: k in m, lambda k: m.__setitem__(k, b"")):
            with pytest.raises(error):
                operation(bad)
    for bad in ("text", 5, None, [1]):
        with pytest.raises(TypeError, match="bytes is wanted"):
            m[1] = bad
    for good in (b"ab", bytearray(b"ab"), memoryview(b"ab"), memoryview(b"a.b.")[::2]):
        m[1] = good
        assert m[1] == b"ab"
    signed = durahash.Map(key="i8", value=str)
    with pytest.raises(OverflowError):
        signed[128] = "x"
    signed[-128] = "\0ü"
    assert dict(signed) == {-128: "\0ü"}
    with pytest.raises(UnicodeEncodeError):
        signed[1] = "\ud800"
    fixed = durahash.Map(key="S4", value=bool)
    with pytest.raises(ValueError, match="4 bytes"):
        fixed[b"abc"] = True
    fixed[b"ab\0\0"] = True
    assert fixed[b"ab\0\0"] is True


def test_unpicklable_values_are_refused_and_change_nothing():
    m = durahash.Map(key=str, value="pickle")
    m["a"] = {1}
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        m["a"] = lambda: 1
    texts = durahash.Map(key=str, value="json")
    with pytest.raises(TypeError):
        texts["a"] = {1}
    assert m["a"] == {1} and "a" not in texts
    with pytest.raises(TypeError, match="encode is to return bytes"):
        durahash.Map(key=str, value=(lambda x: 1, bytes))["a"] = 1
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(m)


def test_update_runs_a_function_and_increment_counts(path):
    m = durahash.Map(path, key=str, value="u8")
    assert m.update("a", lambda n: (n or 0) + 1) == 1
    assert m.update("a", lambda n: n + 1, default=0) == 2
    assert m.update("b", lambda n: n, default=5) == 5
    assert m.update("b", lambda n: durahash.DELETE) is durahash.DELETE
    assert m.update("b", lambda n: durahash.DELETE) is durahash.DELETE
    assert dict(m) == {"a": 2}
    with pytest.raises(ZeroDivisionError):
        m.update("a", lambda n: n / 0)
    with pytest.raises(TypeError):
        m.update("a", lambda n: n, other=1)
    # The function may use the map, and what it changes is not lost.
    calls = []

    def f(n):
        calls.append(n)
        if len(calls) == 1:
            m["a"] = 50
        return n + 1

    assert (m.update("a", f), calls) == (51, [2, 50])
    assert m.increment("c", 255) == 255
    with pytest.raises(OverflowError):
        m.increment("c")
    with pytest.raises(OverflowError):
        m.increment("d", -1)
    assert m["c"] == 255 and "d" not in m
    assert m.increment("c", -255) == 0
    floats = durahash.Map(key=int, value=float)
    assert floats.increment(1, 0.5) + floats.increment(1) == 2.0
    with pytest.raises(TypeError, match="increment is for numbers"):
        durahash.Map(key=str, value=str).increment("a")
    assert m.add_if_absent("e", 1) and not m.add_if_absent("e", 2) and m["e"] == 1


def test_iteration_survives_changes_and_does_not_keep_the_pool_open(path):
    m = durahash.Map(path, key=int, value=int, mode="process")
    m.put_many((n, n) for n in range(5000))
    seen = []
    for key in m:
        seen.append(key)
        if key < 5000:
            m[key + 5000] = key
            if key % 2:
                m.pop(key)
    assert len(seen) == len(set(seen)) and set(range(5000)) <= set(seen)
    items = m.items().__iter__()
    next(items)
    m.close()
    with pytest.raises(durahash.ClosedError):
        list(items)
    durahash.Map(path).close()


def test_a_closed_map_says_so(path):
    with durahash.Map(path, key=str, value=int) as m:
        m["a"] = 1
        assert not m.closed and "map.pool" in repr(m)
    assert m.closed and "closed" in repr(m) and m.path == path
    m.close()
    for operation in (lambda: m["a"], lambda: m.get_many(["a"]), lambda: len(m), m.sync, m.stats, lambda: list(m)):
        with pytest.raises(durahash.ClosedError, match="was closed"):
            operation()


def test_stats_sync_and_backup(path, tmp_path):
    m = durahash.Map(path, key=str, value=int, mode="strict", design="pea")
    m["a"] = 1
    m.sync()
    stats = m.stats()
    assert (stats.entries, stats.design, stats.key_type, stats.value_type) == (1, "pea", "str", "i64")
    assert m.durability.startswith("strict") and stats.mode == "strict" and not stats.recovered
    m.reserve(1000)
    m.backup(tmp_path / "backup.pool")
    m["a"] = 2
    with durahash.Map(tmp_path / "backup.pool", read_only=True) as backup:
        assert backup["a"] == 1
        with pytest.raises(durahash.ReadOnlyError):
            backup["a"] = 2


def test_large_values(path):
    m = durahash.Map(path, key=str, value=bytes)
    large = random.Random(1).randbytes(3 << 20) if hasattr(random, "randbytes") else bytes(3 << 20)
    m["large"] = large
    assert m["large"] == large and m.get_many(["large", "x"]) == [large, None]
    with pytest.raises(durahash.TooLargeError, match="limit"):
        m["k" * (1 << 20) + "k"] = b""
    assert len(m) == 1
