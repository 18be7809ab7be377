"""Ctrl-C and a lack of memory anywhere in the command: one line, an honest exit code, and no draws lost to impatience."""

import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from maitre.cli import main
from maitre.cli.folder import ANSWERS
from maitre.cli.main import run
from maitre.data.simulate import gaussian_clusters
from maitre.engines import interruption

FAST = ["--family", "KnownCovarianceGaussian", "--fixed-scale", "--moves", "gibbs", "--draws", "5", "--burn-in", "5", "--chains", "1", "--concentration", "1"]


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(gaussian_clusters(60, 2, 3, 50.0, 0)[0], columns=["first", "second"]).to_csv("points.csv", index=False)


def pressing(*_, **__):
    raise KeyboardInterrupt


def told(capsys, *arguments, code=130):
    with pytest.raises(SystemExit) as exit_:
        run([*arguments])
    errors = capsys.readouterr().err
    assert exit_.value.code == code
    assert errors.count("\n") == 1
    return errors


@pytest.mark.parametrize("command", ["fit", "search"])
def test_while_a_file_is_read(command, capsys, monkeypatch):
    monkeypatch.setattr(f"maitre.cli.{command}.read_noted", pressing)
    assert told(capsys, command, "points.csv") == "maitre: interrupted; nothing was written\n"
    assert os.listdir() == ["points.csv"]


def test_while_results_are_written(capsys, monkeypatch):
    """The draws are on disk by then, and a resumed run writes the answers."""
    left = "the draws so far are in 'points-maitre': go on with maitre resume points-maitre"
    with monkeypatch.context() as patched:
        patched.setattr("maitre.cli.job.write_table", pressing)
        assert told(capsys, "fit", "points.csv", "-q", *FAST) == f"maitre: interrupted; {left}\n"
    run(["resume", "points-maitre", "-q"])
    assert {*ANSWERS, "COMMIT.json"} <= set(os.listdir("points-maitre"))


def test_when_results_have_been_written():
    def write(out, file):
        Path("answer").mkdir(exist_ok=True)
        Path("answer/summary.json").write_text("{}")
        raise KeyboardInterrupt

    with pytest.raises(main._Interrupted, match="the results are in 'answer'"):
        main._interruptible(write)(out=Path("answer"), file=Path("points.csv"))
    with pytest.raises(main._Interrupted, match="nothing was written"):
        main._interruptible(pressing)(out=Path("answer"), file=Path("points.csv"))  # the answer there is older
    Path("answer").rename("points-maitre")
    os.utime("points-maitre/summary.json", (time.time() + 9, time.time() + 9))
    with pytest.raises(main._Interrupted, match="the results are in 'points-maitre'"):
        main._interruptible(pressing)(out=None, file=Path("points.csv"))


IMPORTS = """
import runpy, signal, sys
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Press())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[1:] = [sys.argv[1], "--version"]
runpy.run_module("maitre.cli.main", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["maitre.cli.fit", "maitre.cli.search", "typer", "numpy", "numba", "maitre.numerics.compilation"])
def test_while_the_command_is_imported(module):
    done = subprocess.run([sys.executable, "-c", IMPORTS, module], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "maitre: interrupted; nothing was written\n")


PRESSES = """
import os, signal, sys, threading, time
from maitre.cli.main import run
def press():
    while not any(thread.name.startswith("maitre-") for thread in threading.enumerate()):
        time.sleep(0.01)
    time.sleep(1.0)
    for _ in range(int(sys.argv[1])):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=press, daemon=True).start()
run(sys.argv[2:])
"""


@pytest.mark.parametrize(
    "command",
    [
        ["fit", *FAST, "--family", "NormalInverseGamma", "--draws", "2000000"],
        pytest.param(["search", "--family", "NormalInverseGamma", "--rounds", "100000000"], marks=pytest.mark.long),
    ],
)
def test_impatient_presses_keep_the_results(command):
    """Three presses within a second: the first stops the run, the others come while it ends or while results are written."""
    done = subprocess.run(
        [sys.executable, "-c", PRESSES, "3", command[0], "points.csv", *command[1:], "--out", "answer"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "stopped early" in done.stdout or "burn-in was stopped" in done.stdout  # where kernels had to be compiled first
    assert {*ANSWERS, "COMMIT.json"} <= set(os.listdir("answer"))


def test_several_presses_outside_a_run_are_one():
    script = "import maitre.cli.fit, os, signal, sys, time\nfrom maitre.cli.main import run\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script += "def read(*_, **__):\n    print('reading', flush=True)\n    time.sleep(60)\nmaitre.cli.fit.read_noted = read\nrun()"
    with subprocess.Popen([sys.executable, "-c", script, "fit", "points.csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "reading\n"
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "maitre: interrupted; nothing was written\n")


def test_handlers_are_left_as_they_were():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run(["--version"])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def outcomes(n):
    """Which of n presses raise an exception."""
    for _ in range(n):
        try:
            interruption.interrupt(signal.SIGINT, None)
            yield False
        except KeyboardInterrupt:
            yield True


def test_presses_are_counted_however_late_they_are_heard_of(monkeypatch):
    minutes = count(0.0, 60.0)
    monkeypatch.setattr(interruption, "time", SimpleNamespace(monotonic=lambda: next(minutes)))
    interruption.forget_presses()
    assert list(outcomes(4)) == [True, False, False, True]
    interruption.forget_presses()
    interruption.Interruptions().count()  # this one has stopped a run
    assert list(outcomes(3)) == [False, False, True]
    interruption.forget_presses()


# -- memory ----------------------------------------------------------------------------------------------------------------------------------------


def wrapped_memory_error():
    try:
        raise MemoryError
    except MemoryError as error:
        raise AttributeError("Failed in nopython mode pipeline") from error


def no_thread():
    raise RuntimeError("can't start new thread")


def no_allocation():
    raise OSError(12, "Cannot allocate memory")


def an_array():
    np.empty(2**60, dtype=np.uint8)


def arrow():
    import pyarrow as pa

    pa.allocate_buffer(2**60)


@pytest.mark.parametrize("lack", [wrapped_memory_error, no_thread, no_allocation, an_array, arrow])
def test_a_lack_of_memory_is_told_in_one_line(lack, capsys, monkeypatch):
    monkeypatch.setattr("maitre.cli.fit.read_noted", lambda *_, **__: lack())
    assert told(capsys, "fit", "points.csv", code=2).startswith("maitre: not enough memory: ")


def test_other_faults_of_ours_are_not_hidden(monkeypatch):
    def fault(*_, **__):
        raise RuntimeError("this should not happen")

    monkeypatch.setattr("maitre.cli.fit.read_noted", fault)
    with pytest.raises(RuntimeError, match="should not happen"):
        run(["fit", "points.csv"])


SCARCE = """
import resource, sys
import pandas
from maitre.cli.main import run
pandas.read_csv("points.csv", engine="pyarrow").to_parquet("small.parquet")
pandas.read_parquet("small.parquet")  # Arrow has its threads now: without memory for them it waits for ever
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[1]) * 2**20,) * 2)
run(sys.argv[2:])
"""


def scarce(megabytes, *arguments):
    done = subprocess.run([sys.executable, "-c", SCARCE, str(megabytes), *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == 2, done.stderr[-2000:]
    assert done.stderr.count("\n") == 1, done.stderr[-2000:]
    assert "memory" in done.stderr
    assert sorted(os.listdir()) == sorted({"points.csv", "small.parquet", *(name for name in arguments if name.startswith("large"))})


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits of memory are set as on Linux")
@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
def test_files_larger_than_memory(kind):
    values = np.zeros((800_000, 8))
    {
        "npy": lambda: np.save("large.npy", values),
        "npz": lambda: np.savez_compressed("large.npz", values),
        "csv": lambda: Path("large.csv").write_text("a,b,c,d\n" + "1.25,2.5,3.5,4.5\n" * 600_000),
        "parquet": lambda: pd.DataFrame(values).add_prefix("x").to_parquet("large.parquet"),
    }[kind]()
    scarce(20, "fit", f"large.{kind}", *FAST)
