"""Engines: the same results in the same order however many workers there are, errors that stop the rest, nesting that cannot lock up, Ctrl-C that loses nothing."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from threading import Event

import pytest

from maitre.engines import Engine, Serial, Threads, engine_named, run_all, share

ENGINES = [Serial(), Threads(1), Threads(2), Threads(5)]


@pytest.mark.parametrize("engine", ENGINES)
def test_results_come_in_order(engine):
    def late_if_early(i):
        time.sleep(0.002 * (20 - i))
        return i * i

    assert engine.map(late_if_early, range(20)) == [i * i for i in range(20)]
    assert engine.map(late_if_early, iter([])) == []
    assert engine.map(str, (i for i in (7,))) == ["7"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_exception_stops_the_rest(engine):
    begun = []

    def fail_from_three(i):
        begun.append(i)
        time.sleep(0.01)
        if i >= 3:
            raise OSError(f"item {i}")
        return i

    with pytest.raises(OSError, match="item 3"):
        engine.map(fail_from_three, range(1000))
    assert len(begun) < 20
    assert engine.map(abs, [-1, -2]) == [1, 2]  # still in order


def test_as_many_at_once_as_there_are_workers():
    busy, most, lock = 0, 0, threading.Lock()

    def work(_):
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.01)
        with lock:
            busy -= 1

    Threads(3).map(work, range(12))
    assert most == 3


def test_threads_last_and_leave():
    def crew():
        return [thread for thread in threading.enumerate() if thread.name.startswith("maitre-")]

    gc.collect()
    time.sleep(0.05)
    before = len(crew())
    with Threads(3) as engine:
        names = {name for _ in range(5) for name in engine.map(lambda _: (time.sleep(0.01), threading.current_thread().name)[1], range(6))}
        assert len(names) <= 3
        assert len(crew()) == before + 2  # and the caller
    forgotten = Threads(2)
    forgotten.map(abs, [1, 2])
    del forgotten
    gc.collect()
    deadline = time.monotonic() + 10.0
    while len(crew()) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(crew()) == before


def test_nested_calls_do_not_lock_up():
    outer, other = Threads(2), Threads(2)

    def inner(i):
        return sum(outer.map(lambda j: i * j, range(10)))

    assert outer.map(inner, range(10)) == [45 * i for i in range(10)]
    assert outer.map(lambda i: sum(other.map(inner, [i, i])), range(6)) == [90 * i for i in range(6)]  # there and back again
    assert outer.map(lambda i: run_all([lambda: i, lambda: 2 * i], Event(), outer)[0], range(4)) == [[i, 2 * i] for i in range(4)]


def test_nested_work_never_exceeds_the_share():
    busy, most, lock = 0, 0, threading.Lock()

    def block(_):
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.005)
        with lock:
            busy -= 1

    chains, n_workers = share(5, 2)
    assert (chains.n_workers, n_workers) == (2, 2)
    run_all([lambda: Threads(n_workers).map(block, range(8)) for _ in range(2)], Event(), chains)
    assert most <= 5


@pytest.mark.parametrize("n_threads", range(1, 9))
@pytest.mark.parametrize("n_chains", range(1, 9))
def test_shares(n_threads, n_chains):
    engine, n_workers = share(n_threads, n_chains)
    assert engine.n_workers == min(n_threads, n_chains)
    assert n_workers >= 1
    assert engine.n_workers * n_workers <= n_threads
    assert engine.n_workers * (n_workers + 1) > n_threads  # nothing is left lying that could be shared evenly


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "x", True, float("nan"), float("inf"), [2], 10**400])
def test_wrong_numbers_of_threads(wrong):
    for make in (Threads, lambda n: engine_named("threads", n), lambda n: engine_named("serial", n), lambda n: share(n, 2), lambda n: run_all([], Event(), n)):
        with pytest.raises(ValueError, match=r"threads is .*; expected a whole number of at least 1"):
            make(wrong)


@pytest.mark.parametrize("wrong", ["thread", "", None, 3, ["threads"], Serial])
def test_unknown_engines(wrong):
    with pytest.raises(ValueError, match=r"engine is .*; expected one of 'threads', 'serial'"):
        engine_named(wrong)


def test_named_engines():
    assert isinstance(engine_named("serial"), Serial)
    assert isinstance(engine_named("threads", 2), Threads)
    assert engine_named("threads").n_workers >= 1
    assert all(isinstance(engine, Engine) for engine in ENGINES)


def test_an_exception_tells_the_others_to_stop():
    stop = Event()

    def fail():
        raise OSError("no more room")

    with pytest.raises(OSError, match="no more room"):
        run_all([lambda: stop.wait(30.0), fail], stop, 2)
    assert stop.is_set()


def test_a_failing_watcher_stops_the_work_first():
    stop, ended = Event(), []

    def work():
        stop.wait(30.0)
        ended.append(True)

    def fail():
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_all([work, work], stop, 2, fail)
    assert ended == [True, True]


def test_fewer_threads_than_wished_for(monkeypatch):
    start, started = threading.Thread.start, []

    def scarce(self):
        if len(started) >= scarce.most:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    scarce.most = 1
    assert Threads(4).map(abs, [-1, -2, -3]) == [1, 2, 3]
    scarce.most = 0
    with pytest.raises(MemoryError):
        Threads(4).map(abs, [-1, -2, -3])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork():
    script = (
        "import os\nfrom maitre.engines import Threads\nengine = Threads(2)\nengine.map(abs, [1, 2])\nchild = os.fork()\n"
        "assert engine.map(abs, [-1, -2]) == [1, 2]\nif child == 0: os._exit(0)\nassert os.waitpid(child, 0)[1] == 0"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------------------------------------

PATIENT = """
import signal, sys, time
from threading import Event
from maitre.engines import Threads, run_all
signal.signal(signal.SIGINT, signal.default_int_handler)
stop = Event()
def chain():
    draws = 0
    while not stop.is_set():
        time.sleep(0.01)
        draws += 1
    time.sleep(float(sys.argv[1]))  # the present iteration
    return draws
print("ready", flush=True)
try:
    results, interrupted = run_all([chain, chain, chain], stop, 2)
    print(all(results[:2]), len(results), interrupted)
except KeyboardInterrupt:
    print("gave up")
"""


def pressed(script, presses, *arguments, pause=0.4):
    """What a script prints that is sent SIGINT so many times once it says it is ready."""
    with subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        for _ in range(presses):
            time.sleep(pause)
            process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return out.strip(), errors.strip(), time.monotonic() - began


@pytest.mark.parametrize("presses", [1, 2, 3])
def test_several_presses_keep_the_results(presses):
    out, errors, _ = pressed(PATIENT, presses, "1.5")
    assert out == "True 3 True"
    said = ["press Ctrl-C 2 more times to give up", "press Ctrl-C once more to give up"][: presses - 1]
    assert errors.count("\n") == max(0, len(said) - 1)
    assert all(words in errors for words in said)


def test_the_echo_of_a_press_is_not_another():
    assert pressed(PATIENT, 8, "1.0", pause=0.01)[0] == "True 3 True"


def test_the_fourth_press_gives_up_at_once():
    out, _, seconds = pressed(PATIENT, 4, "50")
    assert out == "gave up"
    assert seconds < 20


PLAIN = """
import signal, time
from maitre.engines import Threads
signal.signal(signal.SIGINT, signal.default_int_handler)
begun, ended = [], []
def work(i):
    begun.append(i)
    time.sleep(0.3)
    ended.append(i)
print("ready", flush=True)
try:
    Threads(2).map(work, range(1000))
except KeyboardInterrupt:
    print(begun == sorted(ended), len(begun) < 20)
"""


def test_a_plain_map_ends_what_is_under_way():
    assert pressed(PLAIN, 1)[0] == "True True"


OTHER_PLANS = """
import signal, time
from maitre.engines import Threads
presses = []
def plan(number, frame):
    presses.append(number)
signal.signal(signal.SIGINT, plan)
print("ready", flush=True)
print(Threads(2).map(lambda i: (time.sleep(1.0), i)[1], range(4)), len(presses), signal.getsignal(signal.SIGINT) is plan)
"""


def test_a_program_keeps_its_own_plans_for_ctrl_c():
    assert pressed(OTHER_PLANS, 1)[0] == "[0, 1, 2, 3] 1 True"
