"""Streams that never stop a run: a reader who has left, a full disk or a terminal that lacks a sign costs what is printed, not what is computed."""

from __future__ import annotations

import codecs
from typing import Any

_PLAINER = {"≈": "~", "…": "...", "→": "->", "×": "x", "–": "-", "−": "-", "█": "#", "·": ".", "\u0302": "^", "—": "-", "±": "+-", "≥": ">=", "≤": "<="}


def _plainer(error: UnicodeError) -> tuple[str, int]:
    """Signs that an encoding lacks, as others like them."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAINER.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error("maitre-plainer", _plainer)


class Patient:
    """A text stream that takes everything: once writing has failed the rest is dropped, and `failed` says why."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.failed: OSError | None = None

    def write(self, text: str) -> int:
        """Write what can be written."""
        if self.failed is None:
            try:
                self.stream.write(text)
            except UnicodeEncodeError:
                encoding = self.stream.encoding
                self.stream.write(text.encode(encoding, "maitre-plainer").decode(encoding))
            except OSError as error:
                self.failed = error
        return len(text)

    def flush(self) -> None:
        """As far as it goes."""
        if self.failed is None:
            try:
                self.stream.flush()
            except OSError as error:
                self.failed = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
