"""What all tests use."""

import subprocess
import sys

import pytest


@pytest.fixture
def path(tmp_path):
    """Where a pool may be made."""
    return tmp_path / "map.pool"


@pytest.fixture
def python(tmp_path):
    """Starts an interpreter of its own with this program and these arguments."""

    def start(program, *args):
        command = [sys.executable, "-c", program, *map(str, args)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start
