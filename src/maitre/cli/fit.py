"""`maitre fit`: cluster the rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maitre.chains.choice import assembled
from maitre.chains.settings import Settings
from maitre.chains.starts import block_by_block
from maitre.cli import options
from maitre.cli.folder import check_free
from maitre.cli.job import Job, Source, run_job
from maitre.cli.model import named_prior
from maitre.cli.space import DECAYS, Space
from maitre.data.columns import parse_types, with_types
from maitre.data.files import read_noted
from maitre.data.rows import Rows, as_data
from maitre.families.auto import with_fixed_scale
from maitre.model import as_family, is_open
from maitre.moves import REGISTRY as MOVES

_SPACE, _SAMPLING = "Points in space or time", options.SAMPLING


def fit(
    file: options.File,
    out: options.Out = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    columns: options.Columns = None,
    drop: options.Drop = None,
    label_column: options.LabelColumn = None,
    types: options.Types = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    join: options.Join = False,
    family: options.FamilyName = "auto",
    fixed_scale: Annotated[
        bool,
        typer.Option("--fixed-scale", help="Fix the width of clusters at a value guessed from the data instead of sampling it.", rich_help_panel=options.MODEL),
    ] = False,
    prior: options.PriorName = "DirichletProcess",
    concentration: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER", help="Fix the prior's concentration (more means more clusters); by default it is sampled.", rich_help_panel=options.MODEL
        ),
    ] = None,
    neighbours: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Points in space: clusters hold together by links between each row and its K nearest neighbours; by default a fifteenth of the rows, 10 to 100.",
            rich_help_panel=_SPACE,
        ),
    ] = None,
    radius: Annotated[
        float | None, typer.Option(metavar="DISTANCE", help="Links to all rows within this distance (with --neighbours: at most K).", rich_help_panel=_SPACE)
    ] = None,
    coordinates: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Points in space: columns that say where a row is; the others are clustered (add --columns to cluster by coordinates too). By default all columns are both.",
            rich_help_panel=_SPACE,
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="euclidean, manhattan, chebyshev, or haversine (latitude, longitude; km).", rich_help_panel=_SPACE)
    ] = "euclidean",
    decay: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"How links become rarer with distance: {', '.join(DECAYS)}; with a scale as in exponential:0.5, or exponential:sampled.",
            rich_help_panel=_SPACE,
        ),
    ] = "exponential",
    sequential: Annotated[bool, typer.Option("--sequential", help="Links to earlier rows only (time).", rich_help_panel=_SPACE)] = False,
    moves: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Moves of the sampler, joined by +: auto, {', '.join(MOVES)}.", rich_help_panel=_SAMPLING)
    ] = "auto",
    draws: Annotated[
        int | None, typer.Option(metavar="N", help="Draws kept per chain; by default up to 1000, fewer for more rows.", rich_help_panel=_SAMPLING)
    ] = None,
    burn_in: Annotated[int | None, typer.Option(metavar="N", help="Iterations dropped before them; by default as many.", rich_help_panel=_SAMPLING)] = None,
    thin: Annotated[int, typer.Option(metavar="N", help="Keep every N-th iteration.", rich_help_panel=_SAMPLING)] = 1,
    chains: Annotated[int, typer.Option(metavar="N", help="Independent chains; several show whether they agree.", rich_help_panel=_SAMPLING)] = 4,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same draws, on any number of threads.", rich_help_panel=_SAMPLING)] = 0,
    init: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where chains start: auto, sequential, search, one, singletons, random:K, kmeans:K or variational:K.",
            rich_help_panel=_SAMPLING,
        ),
    ] = "auto",
    time_budget: options.TimeBudget = None,
    threads: options.Threads = None,
    without_data: options.WithoutData = False,
) -> None:
    """Cluster the rows of a table, without saying how many clusters there are.

    Writes a folder with the cluster of every row (labels.csv), a picture (clusters.png), a summary (summary.txt, summary.json) and the run itself, draw by draw:
    'maitre resume' goes on with it. Ctrl-C stops sampling early and keeps what has been drawn.
    """
    target = Path(f"{stem(file)}-maitre") if out is None else out
    check_free(target, force)
    reading = read_noted(file, *options.signs(separator, decimal), on_disk=True)
    space, table = Space(neighbours, radius, metric, decay, sequential, coordinates is not None), as_data(reading.table)
    dropped = [*split_names(drop), *([] if columns else split_names(coordinates))]
    wanted = positions(table, split_names(columns), dropped, label_column)
    data, truth = selected(table, split_names(columns), dropped, label_column)
    places = data if coordinates is None else selected(table, split_names(coordinates), [], None)[0]
    if not space.asked_for and (sequential or decay != "exponential" or metric != "euclidean"):
        raise ValueError("--metric, --decay and --sequential are for points in space: add --coordinates, --neighbours or --radius")
    if space.asked_for and prior != "DirichletProcess":
        raise ValueError(f"--coordinates, --neighbours and --radius make the prior distance-dependent: leave out --prior {prior}")
    settings = Settings(moves, draws, burn_in, thin, chains, seed, init)
    data = with_types(data, parse_types(types or []), decide=is_open(family))
    partition_prior = space.prior(places.raw, concentration) if space.asked_for else named_prior(prior, concentration)
    model = assembled(data, with_fixed_scale(as_family(family, data)) if fixed_scale else family, partition_prior, on_disk=block_by_block(data, moves, init))
    run_job(
        Job(
            name=shown(file),
            model=model,
            out=target,
            settings=settings,
            truth=truth,
            places=space.on_the_map(places) if space.asked_for else None,
            time_budget=time_budget,
            threads=threads,
            force=force,
            quiet=quiet,
            store_data=not without_data,
            reading=Source(
                shown(file), [*reading.notes, *filter(None, [space.note])], str(file.absolute()) if join and str(file) != "-" else None, separator, decimal
            ),
            joined=table.frame() if join else None,
            chosen=(table.n_columns, wanted) if table.names is None else None,
        )
    )


def stem(file: Path) -> str:
    """The name of a file without its extensions.

    >>> stem(Path("data/points.csv.gz"))
    'points'
    """
    return "stdin" if str(file) == "-" else Path(file.name.removesuffix(".gz")).stem


def shown(file: Path) -> str:
    """The name of a file for people to read."""
    return "standard input" if str(file) == "-" else file.name


def split_names(text: str | None) -> list[str]:
    """Names separated by commas."""
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]


def selected(table: Rows, columns: list[str], drop: list[str], label_column: str | None) -> tuple[Rows, Any]:
    """The wanted columns of the data, and the column of known labels (None without one). Columns without names go by their positions.

    >>> data, truth = selected(as_data([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]]), [], ["0"], "2")
    >>> data.raw.tolist(), truth.tolist()
    ([[2.0], [4.0]], [0.0, 1.0])
    """
    if not columns and not drop and label_column is None:
        return table, None
    wanted, names = positions(table, columns, drop, label_column), _names(table)
    return table.take(wanted), None if label_column is None else table.column(names.index(label_column))


def _names(table: Rows) -> list[str]:
    return [str(name) for name in (range(table.n_columns) if table.names is None else table.names)]


def positions(table: Rows, columns: list[str], drop: list[str], label_column: str | None) -> list[int]:
    """Where the wanted columns are."""
    names = _names(table)
    for name in (*columns, *drop, *([] if label_column is None else [label_column])):
        if name not in names:
            raise ValueError(f"there is no column '{name}'; the columns are {_listed(names)}")
    wanted = [names.index(name) for name in columns or names if name not in drop and name != label_column]
    if not wanted:
        raise ValueError("no columns are left to cluster by: check --columns, --drop and --label-column")
    return wanted


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f", … ({len(names)} in all)" if len(names) > 20 else "")
