"""Errors say what happened and to which file, and are of a class of their own."""

import errno
import os
import resource

import durahash
import pytest


def test_all_are_one_family():
    errors = [e for e in vars(durahash).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert len(errors) == 20 and all(issubclass(e, durahash.Error) for e in errors)
    assert all(e.__doc__ and e.__module__ == "durahash" for e in errors)


def test_a_pool_of_other_types_is_refused(path):
    durahash.Map(path, key=str, value="u32").close()
    with pytest.raises(durahash.TypesError, match="holds keys of str and values of u32, not keys of i64") as e:
        durahash.Map(path, key=int, value="u32")
    assert str(path) in str(e.value) and isinstance(e.value, TypeError)
    with pytest.raises(durahash.TypesError, match="multimap"):
        durahash.MultiMap(path, key=str, value="u32")
    with durahash.Map(path) as m:
        assert (m.key, m.value) == ("str", "u32")
    # Only what is said has to be so; json is kept as str.
    durahash.Map(path, key=str).close()
    with pytest.raises(durahash.TypesError):
        durahash.Map(path, value="json")


def test_files_that_are_not_what_was_asked_for(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="a new map needs its key=") as e:
        durahash.Map(path)
    assert isinstance(e.value, durahash.NotFoundError) and e.value.errno == errno.ENOENT
    with pytest.raises(durahash.NotFoundError):
        durahash.Map(path, key=int, value=int, create=False)
    with pytest.raises(durahash.NotFoundError):
        durahash.Map(path, key=int, value=int, read_only=True)
    with pytest.raises(ValueError, match="key= and its value="):
        durahash.Map(path, create=True)
    durahash.Map(path, key=int, value=int, create=True).close()
    with pytest.raises(FileExistsError, match="map.pool: the file already exists"):
        durahash.Map(path, key=int, value=int, create=True)
    (tmp_path / "text").write_text("no pool" * 1000)
    with pytest.raises(durahash.NotAPoolError, match="not a durahash pool"):
        durahash.Map(tmp_path / "text", key=int, value=int)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(durahash.CorruptError):
        durahash.Map(path)
    with pytest.raises(durahash.NotAPoolError, match="it is a directory"):
        durahash.Map(tmp_path, key=int, value=int)
    with pytest.raises(durahash.IoError) as e:
        durahash.Map(path / "no.pool", key=int, value=int)
    assert e.value.errno == errno.ENOTDIR and "map.pool/no.pool" in str(e.value)


def test_options_that_make_no_sense_are_refused(path):
    for options in ({"mode": "fast"}, {"design": "btree"}, {"mode": "interval:x"}, {"value": "list"}, {"value": None, "create": True}):
        with pytest.raises(durahash.OptionsError, match="modes are|no such design|no kind of|needs its key="):
            durahash.Map(path, **{"key": int, "value": int, **options})
    with pytest.raises(TypeError):
        durahash.Map(path, key=int, value=int, no_such=1)
    assert not path.exists()


def test_a_full_pool_still_answers(path):
    m = durahash.Map(path, key=int, value=bytes, max_bytes=2 << 20, mode="process")
    with pytest.raises(durahash.FullError, match="maximum size of 2097152 bytes"):
        m.put_many((n, bytes(1000)) for n in range(100_000))
    there = len(m)
    assert there > 500 and m[0] == bytes(1000) and m.check() == []
    assert m.remove_many(range(there // 2)).count(True) == there // 2
    m[0] = b"again"
    m.close()


@pytest.mark.parametrize("mode, limit", [("process", 4 << 20), (None, 180 << 20)])  # a new pool has a ring of 160 MiB
def test_a_full_disk_is_an_error_and_no_signal(path, mode, limit):
    """The limit on the length of files stands for the disk: both are found when the file grows."""
    pid = os.fork()
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            m = durahash.Map(path, key=int, value=bytes, mode=mode)
            try:
                m.put_many((n, bytes(1000)) for n in range(200_000))
            except durahash.FullError as e:
                os._exit(0 if "ulimit" in str(e) and m[0] == bytes(1000) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
