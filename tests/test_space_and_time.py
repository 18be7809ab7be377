"""The pictures of examples/space_and_time.py: the one that needs no other data is drawn, and the example finds what it simulated."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_change_points_are_found(tmp_path, monkeypatch):
    specification = importlib.util.spec_from_file_location("space_and_time", ROOT / "examples" / "space_and_time.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "SERIES", {"draws": 100, "burn_in": 100})
    found = re.fullmatch(r"change_points.png: (\d+) stretches, 6 in truth", module.change_points(tmp_path))
    assert found is not None
    assert 5 <= int(found.group(1)) <= 8
    assert (tmp_path / "change_points.png").stat().st_size > 10_000
    monkeypatch.setattr(module, "DATA", tmp_path)
    assert "is missing; say where the data are with MAITRE_DATA" in module.earthquakes(tmp_path)
