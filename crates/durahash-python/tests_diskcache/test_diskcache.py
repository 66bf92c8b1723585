"""diskcache's own tests of its Cache, with ``durahash.Cache`` in its place; adapter.py says how, and what cannot pass."""

import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

SOURCE = "diskcache==5.6.3"


def test_the_tests_of_diskcache(tmp_path):
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:", "--retries=1"]
    fetched = subprocess.run([*pip, "--dest", tmp_path, SOURCE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if fetched.returncode != 0:
        pytest.skip(f"{SOURCE} cannot be fetched from the package registry: {fetched.stdout.strip()[-300:]}")
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    source = archive.with_suffix("").with_suffix("")
    here = pathlib.Path(__file__).parent
    run = [sys.executable, "-m", "pytest", "-q", "-p", "adapter", "-p", "no:cacheprovider", "-c", os.devnull, "-rX"]
    names = os.pathsep.join([str(source), str(here)])
    ran = subprocess.run(
        [*run, "--rootdir", source, source / "tests/test_core.py"],
        env={**os.environ, "PYTHONPATH": names}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    print(ran.stdout)
    assert ran.returncode == 0 and int(re.search(r"(\d+) passed", ran.stdout)[1]) >= 30, ran.stdout[-5000:]
