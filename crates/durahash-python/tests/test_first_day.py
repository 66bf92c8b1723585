"""What a new user tries first: odd objects, copies, pickles, signatures, garbage, a second look at the same file."""

import copy
import gc
import inspect
import pickle
import re
import sys
import textwrap

import durahash
import pytest


@pytest.mark.skipif(sys.version_info < (3, 10), reason="3.9 has no signatures of classes that are not Python's")
@pytest.mark.parametrize("cls", [durahash.Map, durahash.MultiMap])
def test_help_shows_the_options(cls):
    """An editor asks for the signature: it is that of what opens the pool."""
    shown = inspect.signature(cls)
    opens = inspect.signature(cls.__mro__[1])
    assert list(shown.parameters.values()) == list(opens.parameters.values())


@pytest.mark.parametrize("cls", [durahash.Map, durahash.MultiMap])
def test_a_map_is_not_copied_and_not_pickled(cls):
    m = cls(key=str, value=int)
    tries = [lambda: copy.copy(m), lambda: copy.deepcopy([m])]
    tries += [lambda n=n: pickle.dumps(m, n) for n in range(pickle.HIGHEST_PROTOCOL + 1)]
    for attempt in tries:
        with pytest.raises(TypeError, match="pass its path"):
            attempt()


def test_a_subclass_opens_its_own_pool(path):
    class Ages(durahash.Map):
        def __new__(cls, year):
            return super().__new__(cls, path, key=str, value=int)

        def __init__(self, year):
            super().__init__()
            self.year = year

    with Ages(1852) as ages:
        ages["Ada"] = 36
        assert (ages.year, dict(ages)) == (1852, {"Ada": 36})


def test_what_update_deletes_by_is_one_object():
    m = durahash.Map(key=str, value=int)
    for delete in (copy.deepcopy(durahash.DELETE), pickle.loads(pickle.dumps(durahash.DELETE))):
        m["a"] = 1
        assert m.update("a", lambda _: delete) is durahash.DELETE and "a" not in m


def test_errors_are_pickled():
    with pytest.raises(durahash.NotFoundError) as e:
        durahash.Map("no/such.pool")
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is durahash.NotFoundError and str(again) == str(e.value) and again.errno == e.value.errno


def test_pairs_are_those_of_dict():
    m = durahash.Map(key=str, value=int)
    m.update([["a", 1], ("b", 2), iter(("c", 3))])
    m.update(self=4)
    assert dict(m) == {"a": 1, "b": 2, "c": 3, "self": 4}
    for bad in ([("a", 1, 2)], [["a"]], [1]):
        with pytest.raises((TypeError, ValueError)):
            m.put_many(bad)


def test_numbers_that_do_not_fit_are_refused(capfd):
    floats = durahash.Map(key=str, value="f32")
    with pytest.raises(OverflowError, match="is beyond f32"):
        floats["a"] = 1e300
    floats["a"] = float("inf")
    assert floats["a"] == float("inf") and floats.increment("b", 0.1) == floats["b"]
    with pytest.raises(OverflowError):
        floats.increment("b", 1e300)
    words = durahash.Map(key=int, value="u64")
    with pytest.raises(OverflowError, match="the number is beyond i64|0 is beyond i64"):
        words[10**5000] = 1
    assert words.increment(1, 2**64 - 1) == 2**64 - 1 and words.increment(1, 1 - 2**64) == 0
    with pytest.raises(OverflowError, match="beyond u64"):
        words.increment(1, 2**64)
    with pytest.raises(TypeError):
        words.increment(1, 0.5)
    assert capfd.readouterr().err == ""


def test_what_an_object_raises_is_raised():
    class Interrupted:
        def __index__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        durahash.Map(key=int, value=int).get(Interrupted())


def test_kinds_are_named_by_a_dtype_of_numpy():
    numpy = pytest.importorskip("numpy")
    m = durahash.Map(key=numpy.dtype("u8"), value=numpy.float32)
    assert (m.key, m.value) == ("u64", "f32") and durahash.Map(key=numpy.dtype("S16"), value=int).key == "S16"
    m.put_many(numpy.arange(3, dtype="u8"), numpy.ones(3, "f4"))
    m[numpy.uint64(2**64 - 1)] = numpy.float64(2)
    assert m[2**64 - 1] == 2.0 and m[numpy.int8(1)] == 1.0


@pytest.mark.parametrize("design", ["reh", "pea"])
def test_popitem_drains_a_map(design):
    m = durahash.Map(key=int, value=int, design=design)
    m.put_many((n, -n) for n in range(5000))
    got = [m.popitem() for _ in range(3000)]
    m.put_many((n, -n) for n in range(5000, 6000))  # also those behind the place where it was
    while m:
        got.append(m.popitem())
    assert sorted(got) == [(n, -n) for n in range(6000)]
    with pytest.raises(KeyError):
        m.popitem()
    m[1] = 2
    assert m.popitem() == (1, 2)


def test_a_codec_that_refers_to_its_map_is_collected(path):
    class Store:
        def __init__(self):
            self.map = durahash.Map(path, key=str, value=(self.encode, self.decode))
            self.pairs = iter(self.map.items())

        def encode(self, value):
            return value.encode()

        def decode(self, value):
            return value.decode()

    store = Store()
    store.map["a"] = "1"
    del store
    gc.collect()
    assert durahash.Map(path)["a"] == b"1"


def test_a_finalizer_may_use_the_map(python):
    """An exception is an object that garbage may be collected for, in the middle of an operation."""
    program = """
        import durahash, gc
        m = durahash.Map(key=bytes, value=int)
        class Entry:
            def __init__(self):
                self.cycle = self
            def __del__(self):
                m[b"gone"] = 1
        gc.set_threshold(1, 1, 1)
        long = bytes((1 << 20) + 1)
        for _ in range(200):
            Entry()
            try:
                m[long] = 1
            except durahash.TooLargeError:
                pass
        print(m[b"gone"])
    """
    with python(textwrap.dedent(program)) as child:
        try:
            assert child.communicate(timeout=60)[0] == "1\n"
        finally:
            child.kill()


def test_a_generator_may_use_the_map_that_it_fills():
    m = durahash.Map(key=int, value=int)

    def pairs(depth):
        for n in range(10_000):
            if n == 9000 and depth:
                m.put_many(pairs(depth - 1))
            m.pop(n, None)
            yield n, n

    m.put_many(pairs(2))
    assert len(m) == 10_000 and m.check() == []
    with pytest.raises(durahash.ClosedError):
        m.put_many((n, m.close() or n) for n in range(10))


def test_a_text_without_utf8_is_refused():
    m = durahash.Map(key=str, value="json")
    with pytest.raises(UnicodeEncodeError):
        m["\ud800"] = 1
    with pytest.raises(UnicodeEncodeError):
        m["a"] = ["\ud800"]
    m[""] = {"": None}
    assert dict(m) == {"": {"": None}}


def test_the_error_for_a_second_open_says_where(path):
    m = durahash.Map(path, key=str, value=int)
    link = path.with_suffix(".link")
    link.symlink_to(path)
    with pytest.raises(durahash.LockedError, match=re.escape(str(link))):
        durahash.Map(link)
    m.close()
