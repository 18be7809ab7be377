"""Kill a run at a given write, before, in the middle of, or after it, and go on: run as a program, which forks a child for each kill."""

import json
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import resumption

import maitre as mt
from maitre.posterior import folder as folder_module


def options():
    return {"family": mt.families.NormalInverseGamma(0.0, 0.1, 2.0, 4.0, scale=mt.Gamma(1, 1)), "moves": "gibbs", **resumption.SHAPE}


class Deadly:
    """Counts writes of files, chunks and metadata, and removals; dies at one of them."""

    def __init__(self, when, how):
        self.count, self.when, self.how = 0, when, how

    def wrap(self, function, half=None):
        def write(*arguments, **named):
            self.count += 1
            if self.count == self.when and self.how == "before":
                os._exit(9)
            if self.count == self.when and self.how == "half" and half is not None:
                half(*arguments)
                os._exit(9)
            result = function(*arguments, **named)
            if self.count == self.when:
                os._exit(9)
            return result

        return write


def arm(deadly):
    from zarr.storage import _local

    def half_a_file(file, content):
        file.with_name(f".{file.name}.unfinished").write_bytes(content[: len(content) // 2])

    def half_a_checkpoint(file, checkpoint):
        half_a_file(file, b"PK\x03\x04 and so on")

    def half_a_chunk(path, value, exclusive=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        content = bytes(value.as_buffer_like())
        path.with_suffix(".x.partial").write_bytes(content[: len(content) // 2])

    folder_module.replace_file = deadly.wrap(folder_module.replace_file, half_a_file)
    folder_module.write_checkpoint = deadly.wrap(folder_module.write_checkpoint, half_a_checkpoint)
    _local._put = deadly.wrap(_local._put, half_a_chunk)
    folder_module._PACE = folder_module._SHARE = 0.0


def in_a_child(work):
    """Run in a fork; returns its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:  # the parent sees the code
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def sampled(folder):
    """Half of the draws, then the rest: writes of a new run and of one that goes on."""
    mt.sample(resumption.X, store=folder, threads=1, **(options() | {"draws": 12}))
    mt.resume(folder, draws=25, threads=1, progress=False)


def count_writes(folder):
    read, write = os.pipe()

    def work():
        deadly = Deadly(10**9, "after")
        arm(deadly)
        sampled(folder)
        os.write(write, str(deadly.count).encode())

    assert in_a_child(work) == 0
    return int(os.read(read, 20))


def killed_and_resumed(folder, when, how, expected):
    def run():
        arm(Deadly(when, how))
        sampled(folder)

    def resume():
        begun = (folder / "COMMIT.json").exists()
        posterior = mt.resume(folder, draws=25, progress=False) if begun else mt.sample(resumption.X, store=folder, **options())
        same = all(np.array_equal(np.asarray(values), expected[name]) for name, values in posterior.draws.items())
        assert same, "other draws"
        assert np.array_equal(np.asarray(mt.load(folder).labels), expected["labels"]), "other draws when loaded"

    code = in_a_child(run)
    if code != 9:
        return f"write {when}: not killed ({code})"
    return "" if in_a_child(resume) == 0 else f"killed {how} write {when}: not the same"


def main(n_kills, place):
    resumption.short_commits()
    expected = mt.sample(resumption.X, threads=1, **options()).draws
    place = Path(place)
    total = count_writes(place / "counted")
    rng = np.random.default_rng(1)
    moments = np.sort(rng.choice(np.arange(1, total + 1), n_kills, replace=False))
    faults = [killed_and_resumed(place / f"run{when}", int(when), ("before", "half", "after")[k % 3], expected) for k, when in enumerate(moments)]
    print(json.dumps({"writes": total, "faults": [fault for fault in faults if fault]}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
