"""A run that is killed at any write goes on to the same draws."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked, which this system cannot do")
@pytest.mark.parametrize("n_kills", [10, pytest.param(50, marks=pytest.mark.long)])
def test_killed_at_any_moment_and_resumed(tmp_path, n_kills):
    """Writes of files, chunks and metadata, before, in the middle of and after each."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killing.py")), str(n_kills), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["writes"] > n_kills
    assert not outcome["faults"], done.stderr
