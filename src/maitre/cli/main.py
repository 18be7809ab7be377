"""The command line: `maitre fit`, `maitre search`, `maitre topics`, `maitre rankings`, `maitre predict`, `maitre report`, `maitre compare`, `maitre resume`, `maitre demo`. Whatever goes wrong is told in one line.

Exit codes: 0; 2 for what the user can mend; 130 for Ctrl-C, unless it stopped sampling or searching, which is a way to end well.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

_NO_MEMORY = "not enough memory: use fewer rows or columns, or fewer --draws and --chains"
_SIGNS_OF_NO_MEMORY = ("can't start new thread", "Failed to launch worker thread", "failed to map segment", "annot allocate memory", "C error: out of memory")


def _fail(message: str, code: int = 2) -> NoReturn:
    print(f"maitre: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def _is_of_memory(error: BaseException | None) -> bool:
    """Whether there was not enough memory: libraries say so in many ways, and wrap errors in others."""
    if error is None:
        return False
    before = error.__cause__ if error.__suppress_context__ else error.__context__
    says_so = any(sign in str(error) for sign in _SIGNS_OF_NO_MEMORY)
    return isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM or says_so or _is_of_memory(before)


try:
    import typer

    import maitre
    from maitre.cli.compare import compare
    from maitre.cli.demo import demo
    from maitre.cli.fit import fit, stem
    from maitre.cli.predict import predict_file
    from maitre.cli.rankings import rankings_file
    from maitre.cli.report import report_run
    from maitre.cli.resume import resume_run
    from maitre.cli.search import search_file
    from maitre.cli.topics import topics
    from maitre.engines.interruption import forget_presses, interrupt
    from maitre.posterior.commits import COMMIT
except KeyboardInterrupt:  # the command has hardly begun
    _fail("interrupted; nothing was written", 130)
except (MemoryError, ImportError, OSError) as error:
    if not _is_of_memory(error):
        raise
    _fail(_NO_MEMORY)


class _Interrupted(Exception):  # noqa: N818  it is what has happened
    """Ctrl-C where nothing else takes care of it, with what there is to say."""


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which when interrupted says whether it has written anything."""

    @functools.wraps(command)
    def attempt(**options: Any) -> None:
        began = time.time()
        try:
            command(**options)
        except KeyboardInterrupt:
            if command is predict_file:
                raise _Interrupted("nothing was written") from None
            out = Path(options.get("folder") or options.get("out") or f"{stem(options['file'])}-maitre")
            raise _Interrupted(_what_is_left(out, began)) from None

    return attempt


def _what_is_left(out: Path, began: float) -> str:
    """What a command that was interrupted has written since it began."""
    if _written_since(out / "summary.json", began):
        return f"the results are in '{out}'"
    return f"the draws so far are in '{out}': go on with maitre resume {out}" if _written_since(out / COMMIT, began) else "nothing was written"


def _written_since(file: Path, moment: float) -> bool:
    try:
        return file.stat().st_mtime >= moment
    except OSError:
        return False


@contextmanager
def _patient_interruptions(to_the_end: bool) -> Iterator[None]:
    """Let a second press of Ctrl-C after the one that has stopped a run not destroy its results, which are just being written.

    Where the program ends after this (`to_the_end`) presses have nothing to stop any more.
    """
    replace = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if replace:
        forget_presses()
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if replace:
            signal.signal(signal.SIGINT, signal.SIG_IGN if to_the_end else signal.default_int_handler)


app = typer.Typer(
    name="maitre",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog="[bold]Try[/bold]: maitre demo",
)
_EXAMPLES = """[bold]Examples[/bold]

maitre fit points.csv

maitre fit measurements.parquet --drop id --label-column species --out answer

maitre fit embeddings.npy --family NormalInverseGamma --time-budget 60

maitre fit counts.npz --prior PitmanYor --draws 2000 --seed 7

maitre fit quakes.csv --neighbours 10 --coordinates lat,long --metric haversine"""

_SEARCH_EXAMPLES = """[bold]Examples[/bold]

maitre search points.csv

maitre search embeddings.npy --queue level --time-budget 30

maitre search few.csv --score tight --beam 0 --concentration 1 --fixed-scale   [dim]# a proof, for a few points[/dim]"""

_TOPICS_EXAMPLES = """[bold]Examples[/bold]

maitre topics letters/ --stop-words german.txt

maitre topics reviews.csv --column text --min-documents 5

maitre topics counts.npz --vocabulary words.txt --time-budget 300 --out answer"""

_RANKING_EXAMPLES = """[bold]Examples[/bold]

maitre rankings election.soi

maitre rankings ballots.csv --format ranks --family GeneralizedMallows"""

app.command(epilog=_EXAMPLES, no_args_is_help=False)(_interruptible(fit))
app.command("search", epilog=_SEARCH_EXAMPLES, no_args_is_help=False)(_interruptible(search_file))
app.command("topics", epilog=_TOPICS_EXAMPLES, no_args_is_help=False)(_interruptible(topics))
app.command("rankings", epilog=_RANKING_EXAMPLES, no_args_is_help=False)(_interruptible(rankings_file))
app.command("predict", no_args_is_help=False)(_interruptible(predict_file))
app.command("resume", no_args_is_help=False)(_interruptible(resume_run))
app.command("report", no_args_is_help=False)(_interruptible(report_run))
app.command("compare", no_args_is_help=False)(compare)
app.command()(_interruptible(demo))


@app.callback(invoke_without_command=True)
def start(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    """Bayesian nonparametric clustering: every data point gets a table, and nobody has to say how many tables there are."""
    if version:
        typer.echo(f"maitre {maitre.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str] | None = None) -> None:
    """The console script; of errors it tells one line."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    with _patient_interruptions(to_the_end=arguments is None):
        try:
            code = app(None if arguments is None else list(arguments), prog_name="maitre", standalone_mode=False)
        except BrokenPipeError:  # the reader of our output has left, as in `maitre fit … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except _Interrupted as error:
            _fail(f"interrupted; {error}", 130)
        except (KeyboardInterrupt, typer.Abort):
            sys.exit(130)
        except Exception as error:
            _fail(_in_words(error))
        _let_go_of_output()
        if code:  # typer's own, such as 130 for Ctrl-C while it read the options
            sys.exit(code)


def _let_go_of_output() -> None:
    """Flush what was printed; a reader who has left is no error, since results are in files, and Python's own flush at the end must not fail either."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_words(error: Exception) -> str:
    """What an error says to the user; one that is nobody's fault but ours is raised."""
    if _is_of_memory(error):
        return _NO_MEMORY
    if isinstance(error, (ValueError, OSError)):
        return str(error)
    if not hasattr(error, "format_message"):  # typer's own errors have it: an unknown option, a missing argument
        raise error
    path = getattr(getattr(error, "ctx", None), "command_path", "maitre")
    return f"{error.format_message()} (see {path} --help)"


if __name__ == "__main__":
    run()
