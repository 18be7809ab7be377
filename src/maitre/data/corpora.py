"""Corpora from files: counts of words in documents, whatever form they come in.

| what | how it is known |
|---|---|
| a sparse or dense matrix, a row per document | .npz, .npy, .mtx, .mtx.gz (Matrix Market) |
| LDA-C: a line per document, `3 17:1 20:2 5:1` | .dat, .ldac |
| UCI bag of words: three numbers, then lines `document word count`, both counted from 1 | .txt or .txt.gz that begins so; the words are in vocab.NAME.txt beside docword.NAME.txt |
| texts | a folder of .txt files, a .txt file with a document per line, or a column of a table (.csv, .tsv, .parquet) |
| a table of counts | a .csv, .tsv or .parquet file with a column of numbers per word |

Texts are cut into words by scikit-learn's `CountVectorizer`. Every count is checked, and an error says where it stands.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from maitre.data.files import read_table
from maitre.data.groups import counted_words

FORMATS = ".npz, .npy, .mtx, .dat or .ldac (LDA-C), docword.*.txt (UCI), .csv, .tsv or .parquet (a column of text, or a column per word), .txt (a document per line), or a folder of .txt files"
ENGLISH, NONE = "english", "none"
_MOST_WORDS = 2**24


@dataclass(frozen=True)
class Corpus:
    """Counts of words in documents, what the words are, and what the documents are called."""

    counts: Any  # CSR, documents × words
    vocabulary: list[str] | None = None
    documents: list[str] | None = None
    is_text: bool = False  # it was cut into words here

    def __post_init__(self) -> None:
        if self.counts.shape[1] == 0:
            raise ValueError("the vocabulary is empty: there are no words")
        if self.vocabulary is not None and len(self.vocabulary) != self.counts.shape[1]:
            raise ValueError(
                f"the vocabulary has {len(self.vocabulary)} words and the corpus {self.counts.shape[1]}; expected one line per word, in the order of the columns"
            )

    @property
    def n_empty(self) -> int:
        """How many documents have no words."""
        return int(np.count_nonzero(np.diff(self.counts.indptr) == 0))

    def words(self) -> list[str]:
        """Names of the words: their numbers, where they have no others."""
        return [f"word {w}" for w in range(self.counts.shape[1])] if self.vocabulary is None else self.vocabulary

    def trimmed(self, stop_words: Iterable[str] = (), min_documents: int = 0, min_count: int = 0) -> Corpus:
        """Without stop words, words that are in too few documents, and rare ones. Documents stay, even if nothing is left of them."""
        stop = set(stop_words)
        if stop and self.vocabulary is None:
            raise ValueError("stop words are left out by name: give a vocabulary file with the names of the words")
        in_documents, in_all = np.bincount(self.counts.indices, minlength=self.counts.shape[1]), np.asarray(self.counts.sum(axis=0)).ravel()
        keep = (in_documents >= min_documents) & (in_all >= min_count) & ~np.isin(self.words(), list(stop))
        if not keep.any():
            raise ValueError(
                f"the vocabulary is empty: none of {len(keep)} words is left after stop words and words in fewer than {min_documents} documents or with fewer than "
                f"{min_count} occurrences have been dropped: lower these numbers, or use more documents"
            )
        if keep.all():
            return self
        names = None if self.vocabulary is None else [word for word, kept in zip(self.vocabulary, keep, strict=True) if kept]
        return replace(self, counts=self.counts[:, np.flatnonzero(keep)], vocabulary=names)


def read_corpus(
    path: Path,
    vocabulary: Path | None = None,
    column: str | None = None,
    stop_words: str | None = None,
    min_documents: int | None = None,
    min_count: int = 0,
) -> Corpus:
    """The corpus in a file or folder.

    `vocabulary` names a file with a word per line: the names of the columns of counts or, for texts, the words to look for. `column` is the column of a table that holds
    texts. `stop_words` is "english" (the default for texts without a vocabulary), "none" (the default for others), or a file with a word per line; `min_documents` is 2
    for texts without a vocabulary, else 0.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "corpus.ldac"
    >>> _ = file.write_text("2 0:3 2:1\\n1 1:2\\n")
    >>> read_corpus(file).counts.toarray()
    array([[3, 0, 1],
           [0, 2, 0]])
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file '{path}'; expected a corpus ({FORMATS}): check the path")
    words = None if vocabulary is None else _lines_of_words(vocabulary)
    corpus = _read(path, words, column)
    open_vocabulary = corpus.is_text and words is None
    stop = _stop_words((ENGLISH if open_vocabulary else NONE) if stop_words is None else stop_words)
    return corpus.trimmed(stop, (2 if open_vocabulary else 0) if min_documents is None else min_documents, min_count)


def read_documents(path: Path, words: list[str] | None, column: str | None = None) -> Corpus:
    """More documents in the words of a corpus that there is already; without names of these, they must come as counts."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file '{path}'; expected documents ({FORMATS}): check the path")
    corpus = _read(path, words, column)
    if corpus.is_text and words is None:
        raise ValueError(
            f"'{path}' holds texts, and the words of the run have no names: give counts, or name the words by --vocabulary when topics are sampled"
        )
    return corpus


def _read(path: Path, words: list[str] | None, column: str | None) -> Corpus:
    kind = _kind(path)
    if column is not None and kind not in (".csv", ".tsv", ".parquet"):
        raise ValueError(f"a column is chosen from a table (.csv, .tsv, .parquet), and '{path}' is none: leave it out")
    if path.is_dir():
        return _of_folder(path, words)
    if kind in (".dat", ".ldac"):
        return _of_lda_c(path, words)
    if kind == ".mtx":
        return _with_words(_of_matrix_market(path), words)
    if kind == ".txt":
        return _of_uci(path, words) if _is_uci(path) else _of_texts([line for _, line in _lines(path)], words, None)
    if kind in (".csv", ".tsv", ".parquet"):
        return _of_table(path, words, column)
    if kind in (".npz", ".npy"):
        if kind == ".npz":
            _check_range(path)
        return _with_words(read_table(path), words)
    raise ValueError(f"'{path}' has the extension '{kind}'; expected a corpus: {FORMATS}")


def _check_range(path: Path) -> None:
    """A `ValueError` if a sparse matrix has a word beyond its last column, for which the reader has no words of its own."""
    with suppress(OSError, KeyError, EOFError, zipfile.BadZipFile), np.load(path, allow_pickle=False) as arrays:
        if bytes(arrays["format"]) == b"csr":
            words, n_words = arrays["indices"], int(arrays["shape"][1])
            bad = np.flatnonzero((words < 0) | (words >= n_words))
            if len(bad):
                document = int(np.searchsorted(arrays["indptr"], bad[0], side="right")) - 1
                raise ValueError(
                    f"document {document} of '{path}' has the word {words[bad[0]]}, which is out of range: words are numbered from 0 to {n_words - 1}"
                )


def _kind(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _with_words(counts: Any, words: list[str] | None) -> Corpus:
    return Corpus(counted_words(counts), words)


# -- text files -------------------------------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, compressed or not, with their numbers."""
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if compressed else path.open("rb") as file, io.TextIOWrapper(file, encoding="utf-8-sig") as text:  # type: ignore[arg-type]
            for number, line in enumerate(text, start=1):
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"'{path}' is not UTF-8 text; expected text in UTF-8: save the file in that encoding") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"'{path}' cannot be decompressed; expected a whole gzip file: copy or compress it again") from None


def _lines_of_words(path: Path) -> list[str]:
    """A word per line; empty lines at the end do not count."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no vocabulary file '{path}': check the path")
    words = [line.strip() for _, line in _lines(path)]
    while words and not words[-1]:
        words.pop()
    if not words:
        raise ValueError(f"the vocabulary file '{path}' is empty; expected a word per line")
    return words


def _stop_words(text: str) -> list[str]:
    if text == NONE:
        return []
    if text != ENGLISH:
        return _lines_of_words(Path(text))
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return sorted(ENGLISH_STOP_WORDS)


def _bad_line(path: Path, number: int, what: str) -> NoReturn:
    raise ValueError(f"line {number} of '{path}' {what}")


def _of_lda_c(path: Path, words: list[str] | None) -> Corpus:
    rows, columns, counts, n_documents = [], [], [], 0
    for number, line in _lines(path):
        fields = line.split()
        if not fields:
            continue
        try:
            n_pairs, pairs = int(fields[0]), [tuple(map(int, field.split(":"))) for field in fields[1:]]
        except ValueError:
            _bad_line(path, number, "is no document in LDA-C form; expected a number of different words and then word:count pairs of whole numbers")
        if len(pairs) != n_pairs or any(len(pair) != 2 for pair in pairs):
            _bad_line(path, number, f"says it has {n_pairs} different words and has {len(pairs)} word:count pairs")
        for word, count in pairs:
            _check_entry(path, number, word, count, _MOST_WORDS if words is None else len(words), 0)
            columns.append(word)
            counts.append(count)
        rows += [n_documents] * len(pairs)
        n_documents += 1
    if n_documents == 0:
        raise ValueError(f"'{path}' is empty; expected a line per document")
    n_words = max(columns, default=-1) + 1 if words is None else len(words)
    return _with_words(sparse.csr_matrix((counts, (rows, columns)), shape=(n_documents, n_words), dtype=np.int64), words)


def _check_entry(path: Path, number: int, word: int, count: int, n_words: int, first: int) -> None:
    if not first <= word < n_words + first:
        _bad_line(path, number, f"has the word {word}, which is out of range: words are numbered from {first} to {n_words + first - 1}")
    if count < 0:
        _bad_line(path, number, f"has the count {count} of word {word}; counts are whole numbers of at least 0")


def _is_uci(path: Path) -> bool:
    first = [line.strip() for (_, line), _ in zip(_lines(path), range(3), strict=False)]
    return len(first) == 3 and all(line.isascii() and line.isdigit() for line in first)


def _of_uci(path: Path, words: list[str] | None) -> Corpus:
    import pandas as pd

    beside = [path.with_name(path.name.replace("docword.", "vocab.").removesuffix(".gz") + end) for end in ("", ".gz")]
    if words is None and path.name.startswith("docword."):
        words = next((_lines_of_words(file) for file in beside if file.is_file()), None)
    (_, n_documents), (_, n_words), (_, n_entries) = ((number, int(line)) for (number, line), _ in zip(_lines(path), range(3), strict=False))
    if words is not None and len(words) != n_words:
        raise ValueError(f"the vocabulary has {len(words)} words and '{path}' says it has {n_words}: give the vocabulary of this corpus")
    compression: Any = "gzip" if path.name.lower().endswith(".gz") else None
    try:
        entries = pd.read_csv(path, sep=r"\s+", header=None, skiprows=3, compression=compression, dtype=np.int64).to_numpy()
    except (ValueError, pd.errors.ParserError):
        entries = _uci_entries_one_by_one(path)
    if entries.shape != (n_entries, 3):
        raise ValueError(f"'{path}' says it has {n_entries} entries and has {len(entries)}: copy it again")
    bad = (entries < [1, 1, 0]) | (entries > [n_documents, n_words, np.iinfo(np.int64).max])
    if bad.any():
        row, field = np.argwhere(bad)[0]
        most = (f"from 1 to {n_documents}", f"from 1 to {n_words}", "of at least 0")[field]
        _bad_line(
            path, int(row) + 4, f"has the {('document', 'word', 'count')[field]} {entries[row, field]}, which is out of range: expected a whole number {most}"
        )
    matrix = sparse.csr_matrix((entries[:, 2], (entries[:, 0] - 1, entries[:, 1] - 1)), shape=(n_documents, n_words))
    return _with_words(matrix, words)


def _uci_entries_one_by_one(path: Path) -> Any:
    """The entries, or an error that names the line."""
    rows = []
    for number, line in _lines(path):
        if number > 3 and line.strip():
            fields = line.split()
            if len(fields) != 3 or not all(field.lstrip("-").isdigit() for field in fields):
                _bad_line(path, number, f"is {line.strip()[:40]!r}; expected document, word and count, three whole numbers")
            rows.append([int(field) for field in fields])
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _of_matrix_market(path: Path) -> Any:
    from scipy.io import mmread

    try:
        return mmread(path)
    except Exception as error:  # a damaged file brings forth errors of every kind
        raise ValueError(f"'{path}' cannot be read as a Matrix Market file ({' '.join(str(error).split())}): write it again") from None


# -- texts ------------------------------------------------------------------------------------------------------------------------------------


def _of_texts(texts: list[str], words: list[str] | None, names: list[str] | None) -> Corpus:
    from sklearn.feature_extraction.text import CountVectorizer

    if words is not None and len(set(words)) < len(words):
        raise ValueError("the vocabulary has a word twice: leave one of them out")
    vectorizer = CountVectorizer(vocabulary=words)
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # its own word for it is "empty vocabulary"
        raise ValueError("the vocabulary is empty: there is no word of two letters or more in any document") from None
    return Corpus(counted_words(counts), [str(word) for word in vectorizer.get_feature_names_out()], names, is_text=True)


def _of_folder(path: Path, words: list[str] | None) -> Corpus:
    files = sorted(file for file in path.rglob("*.txt") if file.is_file())
    if not files:
        raise ValueError(f"there are no .txt files in the folder '{path}'; expected one per document")
    texts = ["\n".join(line for _, line in _lines(file)) for file in files]
    return _of_texts(texts, words, [str(file.relative_to(path).with_suffix("")) for file in files])


def _of_table(path: Path, words: list[str] | None, column: str | None) -> Corpus:
    frame = read_table(path)
    names = [str(name) for name in frame.columns]
    texts = [name for name, dtype in zip(names, frame.dtypes, strict=True) if dtype.kind not in "biufcmM"]
    if column is None and not texts:
        if words is not None and sorted(words) == sorted(names):
            frame = frame.iloc[:, [names.index(word) for word in words]]
        return Corpus(counted_words(frame.to_numpy()), words or names)
    if column is None and len(texts) > 1:
        raise ValueError(f"'{path}' has several columns of text ({', '.join(texts[:10])}): say which with --column")
    if column is not None and column not in names:
        raise ValueError(f"there is no column '{column}' in '{path}'; the columns are {', '.join(names[:20])}")
    values = frame.iloc[:, names.index(column or texts[0])]
    return _of_texts(values.fillna("").astype(str).tolist(), words, None)
