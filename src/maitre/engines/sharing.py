"""Which engine, and who gets how many threads: decided here and nowhere else."""

from __future__ import annotations

from maitre.engines.base import Engine, Serial
from maitre.engines.cores import thread_count
from maitre.engines.threads import Threads
from maitre.numerics.arguments import one_of, whole_number

ENGINES = ("threads", "serial")


def engine_named(name: str, threads: int | None = None) -> Engine:
    """The engine of this name; `threads` is the most calls at once, by default as many as there are cores.

    >>> engine_named("threads", 3).n_workers, engine_named("serial", 3).n_workers
    (3, 1)
    """
    n = thread_count(threads)
    return Serial() if one_of("engine", name, ENGINES) == "serial" or n == 1 else Threads(n)


def share(n_threads: int | None, n_chains: int) -> tuple[Engine, int]:
    """An engine for chains and the number of workers for the blocks of each; never more than `n_threads` are at work in all, since a chain waits for its blocks.

    Chains come first, for they never wait for each other; threads that are left over go to blocks in equal parts.

    >>> engine, n_workers = share(8, 3)
    >>> engine.n_workers, n_workers
    (3, 2)
    >>> share(2, 4)[0].n_workers, share(2, 4)[1], share(4, 1)[1]
    (2, 1, 4)
    """
    n = thread_count(n_threads)
    n_outer = min(n, whole_number("chains", n_chains, least=1))
    return engine_named("threads", n_outer), n // n_outer
