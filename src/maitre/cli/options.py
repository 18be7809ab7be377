"""Options that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maitre.data.columns import TYPES
from maitre.data.files import READABLE
from maitre.families import REGISTRY as FAMILIES
from maitre.priors import REGISTRY as PRIORS

MODEL, COLUMNS, OUTPUT, SAMPLING = "Model", "Columns", "Output", "Sampling"
_FAMILY_NAMES = ", ".join(name for name in FAMILIES if name != "Product")

File = Annotated[Path, typer.Argument(metavar="FILE", help=f"Table with one row per point: {READABLE}; - is the standard input.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the results; by default <name of the file>-maitre in the current folder.", rich_help_panel=OUTPUT)]
Force = Annotated[bool, typer.Option("--force", help="Write into the folder even if it holds something else than earlier results.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.", rich_help_panel=OUTPUT)]
Columns = Annotated[
    str | None, typer.Option(metavar="A,B,…", help="Use only these columns (names, or positions from 0 for files without names).", rich_help_panel=COLUMNS)
]
Drop = Annotated[str | None, typer.Option(metavar="A,B,…", help="Leave out these columns.", rich_help_panel=COLUMNS)]
LabelColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column with known labels: left out of the data, compared with the answer at the end.", rich_help_panel=COLUMNS),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="NAME=TYPE",
        help=f"What a column is ({', '.join(TYPES)}), where you know better than what is decided; once for each such column.",
        rich_help_panel=COLUMNS,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="What separates the fields of a text file (such as ';', tab or space); by default it is recognised.", rich_help_panel=COLUMNS
    ),
]
Decimal = Annotated[
    str | None, typer.Option(metavar="SIGN", help="The decimal sign of a text file, . or , ; by default it is recognised.", rich_help_panel=COLUMNS)
]
Join = Annotated[bool, typer.Option("--join", help="Also write the input with the cluster of every row beside it (joined.csv).", rich_help_panel=OUTPUT)]
FamilyName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help=f"Model of a cluster: auto (by the types of the columns; missing values are allowed), {_FAMILY_NAMES}.", rich_help_panel=MODEL
    ),
]
PriorName = Annotated[str, typer.Option(metavar="NAME", help=f"Prior over partitions: {', '.join(PRIORS)}.", rich_help_panel=MODEL)]
Threads = Annotated[int | None, typer.Option(metavar="N", help="How many chains run at once; by default as many as there are cores.", rich_help_panel=SAMPLING)]
TimeBudget = Annotated[float | None, typer.Option(metavar="SECONDS", help="Stop after so long, with what there is so far.", rich_help_panel=SAMPLING)]
_SIGNS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


def signs(separator: str | None, decimal: str | None) -> tuple[str | None, str | None]:
    """The separator and the decimal sign as given in words or signs.

    >>> signs("tab", ",")
    ('\\t', ',')
    """
    given = None if separator is None else _SIGNS.get(separator, separator)
    if given is not None and len(given) != 1:
        raise ValueError(f"--separator is '{separator}'; expected one sign, such as ';', or tab or space")
    if decimal not in (None, ".", ","):
        raise ValueError(f"--decimal is '{decimal}'; expected . or ,")
    return given, decimal


WithoutData = Annotated[
    bool, typer.Option("--without-data", help="Keep no copy of the data in the folder; 'maitre resume' then needs --data.", rich_help_panel=OUTPUT)
]
