"""The examples and the README's snippets run, and a family's edited source takes effect at once."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
SLOWER = "examples/waiting_times.py"


def run(arguments, cwd):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, timeout=300)


def test_a_family_of_ones_own(tmp_path):
    source = (ROOT / SLOWER).read_text().replace("draws=5000, burn_in=1000, chains=4", "draws=50, burn_in=20, chains=1")
    (tmp_path / "waiting_times.py").write_text(source)
    result = run(["waiting_times.py"], tmp_path)
    assert result.returncode == 0, result.stderr
    assert "every identity holds" in result.stdout
    assert "clusters of" in result.stdout


EDITED = """
import sys
sys.path.insert(0, ".")
import numpy as np, maitre as mt
from waiting_times import WaitingTimes
posterior = mt.sample(np.arange(1.0, 13.0), family=WaitingTimes(2.0, 1.5), moves="gibbs", draws=5, burn_in=5, chains=1, seed=0, progress=False)
print(repr(float(posterior.log_joint[0, -1])))
"""


@pytest.mark.long
def test_editing_a_familys_source_changes_results_at_once(tmp_path):
    """Compiled code is cached on disk between processes, yet never stale."""
    source = (ROOT / SLOWER).read_text()
    values = []
    for text in (source, source, source.replace("math.lgamma(shape) - ", "math.lgamma(shape) - 0.25 * s.n[k] - "), source):
        (tmp_path / "waiting_times.py").write_text(text)
        result = run(["-c", EDITED], tmp_path)
        assert result.returncode == 0, result.stderr
        values.append(float(result.stdout))
    assert values[0] == values[1] == values[3]
    assert values[2] == pytest.approx(values[0] - 0.25 * 12, abs=1e-9)


def test_the_python_snippet_of_the_readme_runs(tmp_path):
    snippet = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    assert snippet is not None
    (tmp_path / "snippet.py").write_text(snippet.group(1))
    result = run(["snippet.py"], tmp_path)
    assert result.returncode == 0, result.stderr


def test_the_public_names_are_there():
    import maitre as mt

    for name in ("sample", "load", "Gamma", "Beta", "DPMixture", "Posterior", "approximate", "families", "priors", "moves", "partitions"):
        assert hasattr(mt, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mt.nonsense
    assert np.isfinite(mt.partitions.variation_of_information([0, 1], [0, 0]))
