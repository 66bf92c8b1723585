"""Many keys at once: of iterables, and of arrays, without an object for each key."""

import array

import durahash
import pytest

numpy = pytest.importorskip("numpy")

COUNT = 200_000  # several pieces


@pytest.mark.parametrize(
    "kind, dtype",
    [("u64", "u8"), ("i64", "i8"), ("f64", "f8"), ("u32", "u4"), ("i16", "i2"), ("S16", "S16"), ("S32", "S32")],
)
def test_arrays_are_keys_and_values(kind, dtype):
    rows = numpy.arange(1, COUNT + 1, dtype="u8")
    width = numpy.dtype(dtype).itemsize
    if dtype.startswith("S"):
        # With zeros at the end, which a numpy string leaves out: a row is all of its bytes.
        keys = numpy.zeros((COUNT, width), "u1")
        keys[:, :8] = rows.view("u1").reshape(-1, 8)
        keys = keys.view(dtype).reshape(-1)
    else:
        keys = rows.astype(dtype)
    values = keys[::-1].copy()
    distinct = len(numpy.unique(keys))
    m = durahash.Map(key=kind, value=kind)
    m.put_many(keys, values)
    assert len(m) == distinct
    half = keys[: COUNT // 2]
    if distinct == COUNT:
        gone = numpy.zeros(len(half), bool)
        assert m.remove_many(half, out=gone) == len(half) and gone.all()
        out, missing = numpy.zeros_like(values), numpy.ones(COUNT, bool)
        assert m.get_many(keys, out=out, missing=missing) == COUNT - len(half)
        assert missing[: len(half)].all() and not missing[len(half) :].any()
        assert (out[len(half) :] == values[len(half) :]).all()
        assert (out.view("u1").reshape(COUNT, width)[: len(half)] == 0).all()
        there = bytearray(COUNT)
        assert m.contains_many(keys, out=there) == COUNT - len(half)
        assert there == bytes(len(half)) + b"\1" * (COUNT - len(half))
        added = numpy.zeros(COUNT, "u1")
        assert m.add_if_absent_many(keys, keys, out=added) == len(half)
        assert (added == missing).all()
        m.get_many(keys, out=out)
        assert (out[: len(half)] == half).all() and (out[len(half) :] == values[len(half) :]).all()


def test_rows_of_bytes_are_keys_of_a_digest_and_values_of_a_length():
    digests = numpy.random.default_rng(1).integers(0, 256, (1000, 32), dtype="u1")
    texts = numpy.arange(1000).astype("S100")
    m = durahash.Map(key="S32", value=bytes)
    m.put_many(digests, texts)
    assert m[digests[7].tobytes()] == b"7".ljust(100, b"\0")
    out = numpy.empty(1000, "S100")
    assert m.get_many(digests, out=out) == 1000
    assert (out == texts).all()
    # Bytes in a row are keys, too, and so is any part of an array.
    assert m.contains_many(digests[:3].tobytes()) == [True] * 3
    assert m.contains_many(digests[::2]) == [True] * 500
    assert m.get_many(digests[:2, :])[1] == b"1".ljust(100, b"\0")
    m[digests[5].tobytes()] = b"short"
    with pytest.raises(ValueError, match="key 5 has 5 bytes"):
        m.get_many(digests, out=out)
    assert m.remove_many(memoryview(digests)) == [True] * 1000


def test_anything_with_a_buffer_will_do():
    m = durahash.Map(key="u64", value="f64")
    m.put_many(array.array("Q", [1, 2]), array.array("d", [0.5, 1.5]))
    out = array.array("d", [0, 9])
    missing = bytearray(2)
    assert m.get_many(array.array("Q", [2, 3]), out=out, missing=missing) == 1
    assert (list(out), missing) == ([1.5, 9], b"\0\1")
    empty = numpy.zeros(0, "u8")
    assert m.get_many(empty) == [] and m.get_many(empty, out=numpy.zeros(0)) == 0
    m.put_many(empty, numpy.zeros(0))


def test_arrays_that_are_no_keys_say_how_to_become_some():
    m = durahash.Map(key="u64", value="f64")
    good = numpy.arange(4, dtype="u8")
    for bad in (good.astype("i8"), good.astype("u4"), good.astype("f8"), good.astype(">u8")):
        with pytest.raises(TypeError, match="astype"):
            m.put_many(bad, numpy.zeros(4))
    with pytest.raises(ValueError, match="as many values as keys"):
        m.put_many(good, numpy.zeros(3))
    with pytest.raises(ValueError, match="as many values as keys"):
        m.put_many(good, [1.0])
    with pytest.raises(ValueError, match="room for 3"):
        m.get_many(good, out=numpy.zeros(3))
    with pytest.raises(TypeError, match="keys in an array"):
        m.get_many([1, 2], out=numpy.zeros(2))
    with pytest.raises(ValueError, match="contiguous"):
        m.get_many(good, out=numpy.zeros(8)[::2])
    with pytest.raises(ValueError, match="read-only"):
        m.get_many(good, out=numpy.zeros(4).data.toreadonly())
    with pytest.raises(TypeError):
        m.get_many(good, out=[0, 0, 0, 0])
    with pytest.raises(durahash.TypesError, match="not a valid bool"):
        durahash.Map(key="u64", value=bool).put_many(good, good.astype("u1"))


def test_iterables_are_keys_and_values():
    m = durahash.Map(key=str, value=int)
    m.put_many({"a": 1, "b": 2})
    m.put_many((str(n), n) for n in range(20_000))
    m.put_many(iter("xy"), range(2))
    assert len(m) == 20_004
    assert m.get_many(["19999", "?", "b"], default=-1) == [19999, -1, 2]
    assert m.get_many(str(n) for n in range(20_000)) == list(range(20_000))
    assert m.contains_many({"a": 0, "?": 0}) == [True, False]
    assert m.add_if_absent_many([("a", 5), ("q", 6), ("q", 7)]) == [False, True, False]
    assert m.add_if_absent_many(["q", "r"], [8, 9]) == [False, True]
    assert (m["a"], m["q"], m["r"]) == (1, 6, 9)
    assert m.remove_many(["a", "a", "q"]) == [True, False, True]
    objects = durahash.Map(key=int, value="json")
    objects.put_many(numpy.array([1, 2]), [{"a": 1}, None])
    assert objects.get_many([1, 2, 3], default="none") == [{"a": 1}, None, "none"]
    assert objects.get_many(numpy.array([2, 1], dtype=object)) == [None, {"a": 1}]
    words = durahash.Map(key=str, value=int)
    words.put_many(numpy.array(["one", "three"]), numpy.array([1, 3]))
    assert dict(words) == {"one": 1, "three": 3}


def test_an_error_leaves_those_before():
    m = durahash.Map(key=int, value=int)
    with pytest.raises(ZeroDivisionError):
        m.put_many((n, 1 // (20_000 - n)) for n in range(30_000))
    assert len(m) == 16_384  # whole pieces
    with pytest.raises(TypeError):
        m.put_many([(1, 2), (3, "x")])
    with pytest.raises((TypeError, ValueError)):
        m.put_many([1, 2])


def test_large_values_go_in_small_pieces():
    """A batch takes memory for some of its values at a time, not for all."""
    import resource

    m = durahash.Map(key=int, value=bytes)
    large = bytes(1 << 20)
    m.put_many((n, large) for n in range(100))
    m.put_many(range(100, 200), (large for _ in range(100)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    m.put_many(range(200), (large for _ in range(200)))
    assert m.contains_many(range(200)) == [True] * 200
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 150 << 10  # KiB
    assert m.get_many([5, 500, 150]) == [large, None, large]
