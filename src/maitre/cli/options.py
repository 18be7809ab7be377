"""Options that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maitre.data.files import READABLE
from maitre.families import REGISTRY as FAMILIES
from maitre.priors import REGISTRY as PRIORS

MODEL, COLUMNS, OUTPUT, SAMPLING = "Model", "Columns", "Output", "Sampling"
_FAMILY_NAMES = ", ".join(name for name in FAMILIES if name != "Product")

File = Annotated[Path, typer.Argument(metavar="FILE", help=f"Table with one row per point: {READABLE}.")]
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
FamilyName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help=f"Model of a cluster: auto (by the types of the columns; missing values are allowed), {_FAMILY_NAMES}.", rich_help_panel=MODEL
    ),
]
PriorName = Annotated[str, typer.Option(metavar="NAME", help=f"Prior over partitions: {', '.join(PRIORS)}.", rich_help_panel=MODEL)]
Threads = Annotated[int | None, typer.Option(metavar="N", help="How many chains run at once; by default as many as there are cores.", rich_help_panel=SAMPLING)]
TimeBudget = Annotated[float | None, typer.Option(metavar="SECONDS", help="Stop after so long, with what there is so far.", rich_help_panel=SAMPLING)]
WithoutData = Annotated[
    bool, typer.Option("--without-data", help="Keep no copy of the data in the folder; 'maitre resume' then needs --data.", rich_help_panel=OUTPUT)
]
