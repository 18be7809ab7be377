"""Where work runs. An engine knows no statistics: it calls functions and hands back their results in order."""

from maitre.engines.base import Engine, Serial
from maitre.engines.sharing import engine_named, share
from maitre.engines.threads import Threads, run_all

__all__ = ["Engine", "Serial", "Threads", "engine_named", "run_all", "share"]
