"""The documentation runs, and what a user types first works."""

import ast
import doctest
import inspect
import pathlib
import pydoc
import re
import rlcompleter
import subprocess
import sys

import durahash
import pytest

ROOT = pathlib.Path(__file__).parents[3]


def documented():
    """Everything public that has examples."""
    yield "durahash", durahash.__doc__
    for name in durahash.__all__:
        thing = getattr(durahash, name)
        if inspect.isclass(thing):
            yield name, thing.__doc__
            for member in dir(thing):
                if not member.startswith("_"):
                    yield f"{name}.{member}", getattr(thing, member).__doc__


@pytest.mark.parametrize("name, text", [pair for pair in documented() if ">>>" in (pair[1] or "")])
def test_examples(name, text):
    test = doctest.DocTestParser().get_doctest(text, {"durahash": durahash}, name, None, None)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_all_has_documentation():
    inherited = {"errno", "strerror", "filename", "filename2", "characters_written", "args", "with_traceback", "add_note"}
    for name, text in documented():
        assert text or name.split(".")[-1] in inherited, name


def test_help_and_completion():
    text = pydoc.plain(pydoc.render_doc(durahash.Map))
    for wanted in ("put_many(self, /, keys, values=None)", "update(mapping)", "mode"):
        assert wanted in text, wanted
    assert "Dictionaries in a file" in pydoc.render_doc(durahash)
    m = durahash.Map(key=str, value=int)
    complete = rlcompleter.Completer({"m": m}).complete
    names = [complete("m.", n).rstrip("()") for n in range(60) if complete("m.", n)]
    assert {"m.get_many", "m.increment", "m.keys", "m.stats"} <= {n.split("(")[0] for n in names}
    # Nothing private is offered.
    assert not [n for n in names if n.startswith("m._")]
    m.close()
    assert complete("m.", 0)


def test_the_stubs_name_what_there_is():
    stub = (pathlib.Path(durahash.__file__).parent / "__init__.pyi").read_text()
    assert (pathlib.Path(durahash.__file__).parent / "py.typed").exists()
    assert ast.literal_eval(re.search(r"^__all__ = (\[.*?\])", stub, re.M | re.S)[1]) == durahash.__all__
    mixins = {"get", "pop", "popitem", "clear", "keys", "values", "items"}
    for cls in (durahash.Map, durahash.MultiMap, durahash.Cache, durahash.Clock):
        body = re.search(rf"^class {cls.__name__}[(:].*?(?=^class|\Z)", stub, re.M | re.S)[0]
        there = {name for name in dir(cls) if not name.startswith("_")}
        named = set(re.findall(r"def ([a-z]\w*)", body))
        assert there - named - mixins == set() and named - there == set(), cls


def test_the_stubs_have_the_parameters_of_the_methods():
    stub = ast.parse((pathlib.Path(durahash.__file__).parent / "__init__.pyi").read_text())
    for cls in stub.body:
        methods = [f for f in getattr(cls, "body", []) if isinstance(f, ast.FunctionDef) and not f.decorator_list]
        for f in methods:
            if not f.name.startswith("_"):
                args = [arg.arg for arg in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)]
                optional = len(f.args.defaults) + sum(default is not None for default in f.args.kw_defaults)
                there = inspect.signature(getattr(getattr(durahash, cls.name), f.name)).parameters.values()
                assert args == [p.name for p in there], f"{cls.name}.{f.name}"
                assert optional == sum(p.default is not p.empty for p in there), f"{cls.name}.{f.name}"


@pytest.mark.parametrize("page", ["docs/python.md", "docs/diskcache.md", "crates/durahash-python/README.md", "README.md"])
def test_pages(page, tmp_path, monkeypatch):
    """Each block of a page runs after those before it, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("program", sorted(p.name for p in (ROOT / "examples/python").glob("*.py")))
def test_programs(program, tmp_path):
    ran = subprocess.run(
        [sys.executable, ROOT / "examples/python" / program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert ran.returncode == 0 and ran.stdout, ran.stderr.decode()
