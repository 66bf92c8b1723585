"""Kills, forks, spawned workers, several interpreters, and signals."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap

import durahash
import pytest

WRITER = """
import sys, durahash
m = durahash.Map(sys.argv[1], key=int, value=str, mode=sys.argv[2], live_image=len(sys.argv) > 3)
for n in range(10**9):
    m[n] = str(n) * 20
    if n % 100 == 0:
        print(n, flush=True)
"""


@pytest.mark.parametrize("mode", [["process"], ["interval"], ["strict"], ["interval", "live"]])
def test_a_kill_loses_nothing_that_returned(path, python, mode):
    with python(WRITER, path, *mode) as child:
        for line in child.stdout:
            if int(line) >= 300:
                child.send_signal(signal.SIGKILL)
                break
        returned = int([line, *child.stdout.read().split()][-1])
    m = durahash.Map(path)
    assert m.stats().recovered and m.check() == []
    assert all(m[n] == str(n) * 20 for n in range(returned + 1))
    assert len(m) <= returned + 102


def test_a_program_that_ends_without_a_close_closes(path, python):
    program = "import sys, durahash; m = durahash.Map(sys.argv[1], key=int, value=int); m[1] = 2"
    with python(program, path) as child:
        assert child.wait() == 0, child.stderr.read()
    m = durahash.Map(path)
    assert m[1] == 2 and not m.stats().recovered
    with python(program + "; raise SystemExit(3)", path.with_suffix(".other")) as child:
        assert child.wait() == 3
    assert not durahash.Map(path.with_suffix(".other")).stats().recovered


def test_two_interpreters_on_one_pool(path, python):
    m = durahash.Map(path, key=str, value=int)
    m["a"] = 1
    program = """
        import sys, durahash
        try:
            durahash.Map(sys.argv[1], read_only="ro" in sys.argv)
        except durahash.LockedError as e:
            print(e)
    """
    for more in ([], ["ro"]):
        with python(textwrap.dedent(program), path, *more) as child:
            out, err = child.communicate()
        assert "has the pool open" in out and "map.pool" in out, err
    # A cell of a notebook that is run once more, or a second map by mistake.
    with pytest.raises(durahash.LockedError, match="close it there"):
        durahash.Map(path)
    m.close()
    readers = [durahash.Map(path, read_only=True) for _ in range(2)]
    read = "import sys, durahash; print(durahash.Map(sys.argv[1], read_only=True)['a'])"
    with python(read, path) as child:
        assert child.communicate()[0] == "1\n"
    assert [reader["a"] for reader in readers] == [1, 1]


@pytest.mark.parametrize("cls, kinds", [(durahash.Map, {"key": str, "value": int}), (durahash.Cache, {})])
def test_a_writer_may_have_readers(path, python, cls, kinds):
    program = """
        import sys, durahash
        m = getattr(durahash, sys.argv[2])(sys.argv[1], read_only=True)
        for _ in range(2):
            print(m.get("a"), flush=True)
            input()
        try:
            m.get("a")
        except durahash.LockedError:
            print("closed")
    """
    m = cls(path, mode="process", readers=True, **kinds)
    m["a"] = 1
    with python(textwrap.dedent(program), path, cls.__name__) as child:
        said = [child.stdout.readline()]
        m["a"] = 2
        child.stdin.write("\n")
        child.stdin.flush()
        said.append(child.stdout.readline())
        m.close()
        out, err = child.communicate("\n")
    assert [*said, out] == ["1\n", "2\n", "closed\n"], err


def test_a_writer_of_a_multimap_may_have_readers(path, python):
    m = durahash.MultiMap(path, key=str, value=int, mode="process", readers=True)
    m.add_many(["a"] * 100, range(100))
    read = "import sys, durahash; print(sum(durahash.MultiMap(sys.argv[1], read_only=True).get_all('a')))"
    with python(read, path) as child:
        assert child.communicate()[0] == "4950\n"


def test_a_forked_child_is_told_what_to_do(path):
    m = durahash.Map(path, key=str, value=int)
    m["a"] = 1
    pairs = iter(m)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = set()
        operations = [
            lambda: m["a"],
            lambda: m.put_many({"b": 2}),
            lambda: m.__setitem__("a", 2),
            lambda: "a" in m,
            lambda: len(m),
            lambda: next(pairs),
            m.sync,
            m.close,
        ]
        for operation in operations:
            try:
                operation()
            except durahash.ForkedError as e:
                said.add(str(e))
            except BaseException as e:
                said.add(repr(e))
        closed = m.closed and "closed" in repr(m)
        del m, operations, pairs
        try:
            durahash.Map(path)
        except durahash.LockedError:
            said.add("locked")
        os.write(w, repr((closed, sorted(said))).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as answers:
        closed, said = eval(answers.read())
    assert os.waitpid(pid, 0)[1] == 0
    assert closed and len(said) == 2 and "locked" in said, said
    assert "spawn" in said[1] or "spawn" in said[0]
    m["b"] = 2
    assert dict(m) == {"a": 1, "b": 2} and m.check() == []
    m.close()
    # After the close a child may open it.
    pid = os.fork()
    if pid == 0:
        try:
            with durahash.Map(path) as child:
                child["c"] = 3
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert durahash.Map(path)["c"] == 3


def _work(path):
    with durahash.Map(path) as m:
        return m.increment("count")


def test_spawned_workers_open_it_themselves(path):
    durahash.Map(path, key=str, value=int).close()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_work, [str(path)] * 3) == [1, 2, 3]


def test_ctrl_c_ends_put_many(python):
    program = """
        import durahash, itertools, signal
        # A process in the background may have been started to ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        m = durahash.Map(key=int, value=int)
        def pairs():
            for n in itertools.count():
                if n == 50_000:
                    print("go", flush=True)
                yield n, n
        try:
            m.put_many(pairs())
        except KeyboardInterrupt:
            print(len(m) >= 40_000 and m.check() == [])
    """
    with python(textwrap.dedent(program)) as child:
        assert child.stdout.readline() == "go\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "True\n"


def test_ctrl_c_ends_put_many_of_arrays(python):
    pytest.importorskip("numpy")
    program = """
        import durahash, numpy, threading, signal, os
        signal.signal(signal.SIGINT, signal.default_int_handler)
        m = durahash.Map(key="u64", value="u64")
        keys = numpy.arange(20_000_000, dtype="u8")
        def stop():
            while len(m) < 100_000:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=stop).start()
        try:
            m.put_many(keys, keys)
        except KeyboardInterrupt:
            print(100_000 <= len(m) < 20_000_000)
    """
    with python(textwrap.dedent(program)) as child:
        out, err = child.communicate()
    assert out == "True\n", err


def test_an_interpreter_that_ends_with_threads_at_work(path, python):
    program = """
        import sys, threading, durahash
        m = durahash.Map(sys.argv[1], key=int, value=int)
        def work():
            for n in range(10**9):
                try:
                    m[n] = n
                except durahash.ClosedError:
                    return
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        while len(m) < 1000:
            pass
    """
    with python(textwrap.dedent(program), path) as child:
        assert child.wait() == 0, child.stderr.read()
    assert len(durahash.Map(path)) >= 1000


def test_no_python_is_left_behind(tmp_path):
    """A map that is dropped closes its pool, also in a cycle of references."""
    path = tmp_path / "map.pool"
    m = durahash.Map(path, key=int, value=int)
    pairs = m.items().__iter__()
    del m, pairs
    durahash.Map(path).close()
    code = "import durahash, sys; sys.stdout.write(str(sorted(k for k in sys.modules if 'numpy' in k)))"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE).stdout == b"[]"
