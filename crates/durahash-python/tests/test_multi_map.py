"""A multimap has any number of values for a key."""

import random
from collections import Counter

import durahash
import pytest


@pytest.mark.parametrize("key, value", [(int, int), (str, "S16"), ("S16", str), (int, "json")])
def test_it_is_a_multiset_of_pairs(path, key, value):
    r = random.Random(1)
    make = {
        int: lambda n: n,
        str: str,
        "S16": lambda n: n.to_bytes(16, "little"),
        "json": lambda n: [n],
    }
    want = Counter()
    with durahash.MultiMap(path, key=key, value=value, mode="process") as m:
        for _ in range(2000):
            k, v = make[key](r.randrange(20)), make[value](r.randrange(5))
            what = r.randrange(8)
            if what < 5:
                m.add(k, v)
                want[k, repr(v)] += 1
            elif what < 7:
                assert m.remove_one(k, v) == (want[k, repr(v)] > 0)
                want[k, repr(v)] = max(0, want[k, repr(v)] - 1)
            else:
                gone = [pair for pair in want if pair[0] == k]
                assert m.remove_all(k) == sum(want.pop(pair) for pair in gone)
            mine = Counter({v: n for (other, v), n in want.items() if other == k and n})
            assert Counter(map(repr, m.get_all(k))) == mine
            assert (m.count(k), k in m) == (sum(mine.values()), bool(mine))
        assert len(m) == sum(want.values())
        assert Counter((k, repr(v)) for k, v in m.items()) == +want
        assert Counter(map(repr, m.values())) == Counter(v for _, v in want.elements())
        assert m.check() == []
    with durahash.MultiMap(path, read_only=True) as m:
        assert Counter(m) == Counter(k for k, _ in want.elements()) == Counter(m.keys())


def test_many_values_come_from_arrays():
    numpy = pytest.importorskip("numpy")
    m = durahash.MultiMap(key="u64", value="u32")
    m.add_many(numpy.arange(100_000, dtype="u8") % 10, numpy.arange(100_000, dtype="u4"))
    assert m.count(3) == 10_000 and sorted(m.get_all(3))[:2] == [3, 13]
    keys, mask = numpy.arange(2000, dtype="u8"), numpy.zeros(2000, dtype="?")
    assert m.contains_many(keys, out=mask) == 10 and mask[:11].tolist() == [True] * 10 + [False]
    many = m.get_all_many(keys)
    assert len(many) == 2000 and sorted(many[3]) == sorted(m.get_all(3)) and many[10] == []
    assert m.remove_all_many([7, 7, 10]) == [True, False, False] and m.count(7) == 0
    m.add_many([7] * 10_000, range(10_000))
    m.add_many({3: 1})
    assert m.stats().entries == 100_001
    m.clear()
    assert len(m) == 0 and m.get_all(3) == []
    assert "MultiMap" in repr(m)


def test_the_one_is_not_the_other(path):
    durahash.MultiMap(path, key=int, value=int).close()
    with pytest.raises(durahash.TypesError, match="multimap"):
        durahash.Map(path)
