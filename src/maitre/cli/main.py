"""The command line: `maitre fit`, `maitre search`, `maitre demo`. Whatever goes wrong is told in one line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

import maitre
from maitre.cli.demo import demo
from maitre.cli.fit import fit
from maitre.cli.resume import resume_run
from maitre.cli.search import search_file

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

app.command(epilog=_EXAMPLES, no_args_is_help=False)(fit)
app.command("search", epilog=_SEARCH_EXAMPLES, no_args_is_help=False)(search_file)
app.command("resume", no_args_is_help=False)(resume_run)
app.command()(demo)


@app.callback(invoke_without_command=True)
def start(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    """Bayesian nonparametric clustering: every data point gets a table, and nobody has to say how many tables there are."""
    if version:
        typer.echo(f"maitre {maitre.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str] | None = None) -> None:
    """The console script: exit code 0, 2 with one line on stderr for what the user can mend, 130 for Ctrl-C."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    try:
        app(None if arguments is None else list(arguments), prog_name="maitre", standalone_mode=False)
    except BrokenPipeError:  # the reader of our output has left, as in `maitre fit … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except MemoryError:
        _fail("not enough memory: use fewer rows or columns, or fewer --draws and --chains")
    except (ValueError, OSError) as error:
        _fail(str(error))
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own errors have it: an unknown option, a missing argument
            raise
        path = getattr(getattr(error, "ctx", None), "command_path", "maitre")
        _fail(f"{error.format_message()} (see {path} --help)")


def _fail(message: str) -> None:
    print(f"maitre: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    run()
