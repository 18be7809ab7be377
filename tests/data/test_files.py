"""Tables survive the way through files; what cannot be read is refused in one line that helps."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from maitre.data.files import read_table, replacing, write_table


@pytest.fixture
def mixed():
    return pd.DataFrame({"size": [1.5, np.nan, 1 / 3], "count": [1, -2, 3], "kind": ["a", "b, c", 'say "d"'], "sure": [True, False, True]})


def text_file(folder, content, name="table.csv"):
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def refusal(file, error=ValueError):
    with pytest.raises(error) as caught:
        read_table(file)
    message = str(caught.value)
    assert "\n" not in message
    assert "expected" in message
    return message


# Reading and writing


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "T.CSV", "t.tsv.gz", "t.parquet"])
def test_a_table_survives(tmp_path, mixed, name):
    write_table(tmp_path / name, mixed)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), mixed)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_numbers_survive_to_the_last_bit(tmp_path, name):
    values = np.random.default_rng(0).normal(size=(500, 4)) * 10.0 ** np.arange(-150, 150, 75)
    write_table(tmp_path / name, pd.DataFrame(values, columns=list("abcd")))
    np.testing.assert_array_equal(read_table(tmp_path / name).to_numpy(), values)


def test_numbers_beside_text_are_read_like_numbers_alone(tmp_path):
    values = np.random.default_rng(1).normal(size=500)
    write_table(tmp_path / "t.csv", pd.DataFrame({"x": values, "kind": ["a", "b"] * 250}))
    np.testing.assert_allclose(read_table(tmp_path / "t.csv")["x"], values, rtol=1e-15)


def test_compressed_names_are_compressed(tmp_path, mixed):
    write_table(tmp_path / "t.csv.gz", mixed)
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()).decode().startswith("size,count,kind,sure\n")


def test_a_path_may_be_a_string(tmp_path, mixed):
    write_table(str(tmp_path / "t.csv"), mixed)
    assert len(read_table(str(tmp_path / "t.csv"))) == 3


@pytest.mark.parametrize(
    ("content", "columns", "values"),
    [
        ("1,2.5\n3,4\n", ["column_0", "column_1"], [[1, 2.5], [3, 4]]),
        ("7\n8\n", ["column_0"], [[7], [8]]),
        ("NA,-1e3\n2,3\n", ["column_0", "column_1"], [[np.nan, -1000], [2, 3]]),
        ("a,b\n1,2\n", ["a", "b"], [[1, 2]]),
        ("a,1\n1,2\n", ["a", "1"], [[1, 2]]),
        ("\ufeffa,b\r\n1,2\r\n", ["a", "b"], [[1, 2]]),
        ("\n\na,b\n\n1,2\n\n", ["a", "b"], [[1, 2]]),
        ("a,b\n1,\n,2\n", ["a", "b"], [[1, np.nan], [np.nan, 2]]),
        ("a,a\n1,2\n", ["a", "a.1"], [[1, 2]]),
        ('"a","b"\n"1","2"\n', ["a", "b"], [[1, 2]]),
        ("0,1,2\n0.5,1.5,2.5\n", ["0", "1", "2"], [[0.5, 1.5, 2.5]]),
        ("0,1\n1,0\n", ["column_0", "column_1"], [[0, 1], [1, 0]]),
        (",0,1\n0,5,6\n", ["Unnamed: 0", "0", "1"], [[0, 5, 6]]),
    ],
)
def test_header_or_no_header(tmp_path, content, columns, values):
    frame = read_table(text_file(tmp_path, content))
    assert list(frame.columns) == columns
    np.testing.assert_array_equal(frame.to_numpy(dtype=float), values)


def test_whole_numbers_that_turn_fractional_far_down_are_kept(tmp_path):
    frame = read_table(text_file(tmp_path, "a,b\n" + "1,2\n" * 600_000 + "1.5,3\n"))
    assert frame["a"].iloc[-1] == 1.5
    assert frame.shape == (600_001, 2)


def test_dates_stay_text(tmp_path):
    frame = read_table(text_file(tmp_path, "day,x\n2020-01-01,1\n2020-01-02,2\n"))
    assert frame["day"].tolist() == ["2020-01-01", "2020-01-02"]


def test_separators_and_line_breaks_in_quotes_belong_to_the_text(tmp_path):
    frame = read_table(text_file(tmp_path, 'x,note\n1,"two\nlines"\n2,"a,b"\n3,\n'))
    assert frame["note"].tolist()[:2] == ["two\nlines", "a,b"]
    assert frame["note"].isna().tolist() == [False, False, True]


def test_arrays(tmp_path):
    array = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", table=array)
    np.testing.assert_array_equal(read_table(tmp_path / "a.npy"), array)
    np.testing.assert_array_equal(read_table(tmp_path / "a.npz"), array)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.bsr_matrix, sparse.dia_matrix, sparse.csr_array])
def test_sparse_matrices_come_back_as_csr(tmp_path, kind):
    dense = np.array([[0, 2, 0], [1, 0, 3]])
    sparse.save_npz(tmp_path / "s.npz", kind(dense))
    matrix = read_table(tmp_path / "s.npz")
    assert isinstance(matrix, sparse.csr_matrix)
    np.testing.assert_array_equal(matrix.toarray(), dense)


# Refusals


def test_missing_file(tmp_path):
    assert "there is no file" in refusal(tmp_path / "nowhere.csv", FileNotFoundError)


def test_directory(tmp_path):
    assert "is not a file but a directory" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.npz", "a.parquet", "a.tsv"])
def test_empty_file(tmp_path, name):
    assert "is empty" in refusal(text_file(tmp_path, "", name))


@pytest.mark.parametrize("content", ["\n", " \n\n", "\ufeff"])
def test_blank_file(tmp_path, content):
    assert "is empty" in refusal(text_file(tmp_path, content))


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz", "a.parquet.gz"])
def test_unknown_extension(tmp_path, name):
    assert "expected .csv" in refusal(text_file(tmp_path, "1", name))


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("a,b\n1,2\n3\n", "line 3 of .* has 1 fields; expected 2"),
        ("a,b\n1,2\n\n3,4,5\n", "line 4 of .* has 3 fields; expected 2"),
        ("a,b\nx,y\nz\n", "line 3 of .* has 1 fields; expected 2"),
        ("a,b\nx,y\nz,w,v\n", "line 3 of .* has 3 fields; expected 2"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2 of .* has 3 fields; expected 2"),
        ("1,2,3\n4,5\n", "line 2 of .* has 2 fields; expected 3"),
        ('a,b\n"x\ny",1\nz\n', "line 4 of .* has 1 fields; expected 2"),
        ("a,b\n" + "1,2\n" * 300_000 + "3\n", "line 300002 of .* has 1 fields; expected 2"),
    ],
)
def test_unequal_rows_name_the_line(tmp_path, content, where):
    file = text_file(tmp_path, content)
    with pytest.raises(ValueError, match=where):
        read_table(file)


@pytest.mark.parametrize("content", [b"name\nJos\xe9\n", b"n\xe9,x\n1,2\n", b"a,b\n1,2\n3,\xff\n"])
def test_undecodable_bytes_name_the_line(tmp_path, content):
    line = 1 + content[: [byte > 127 for byte in content].index(True)].count(b"\n")
    assert f"not UTF-8 text (line {line}, byte 0x" in refusal(text_file(tmp_path, content))


@pytest.mark.parametrize("spoil", [lambda raw: raw[: len(raw) // 2], lambda raw: b"not gzip at all", lambda raw: raw[:20] + b"\0\1\2\3" + raw[24:]])
def test_spoiled_gzip(tmp_path, spoil):
    raw = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(20_000)))
    assert "cannot be decompressed" in refusal(text_file(tmp_path, spoil(raw), "t.csv.gz"))


@pytest.mark.parametrize("name", ["p.parquet", "p.npy", "p.npz"])
@pytest.mark.parametrize("keep", [0.3, 0.7, 0.99])
def test_truncated_binary_files(tmp_path, name, keep):
    array = np.random.default_rng(0).normal(size=(50, 3))
    file = tmp_path / name
    {".parquet": lambda: write_table(file, pd.DataFrame(array, columns=list("abc"))), ".npy": lambda: np.save(file, array)}.get(
        file.suffix, lambda: np.savez(file, a=array)
    )()
    file.write_bytes(file.read_bytes()[: int(keep * file.stat().st_size)])
    assert "cannot be read as" in refusal(file)


@pytest.mark.parametrize("name", ["p.parquet", "p.npy", "p.npz"])
def test_other_contents(tmp_path, name):
    assert "cannot be read as" in refusal(text_file(tmp_path, "hello, world\n", name))


@pytest.mark.parametrize("arrays", [{}, {"a": np.ones(2), "b": np.ones(3)}, {f"a{i}": np.ones(1) for i in range(9)}])
def test_archives_with_other_than_one_array(tmp_path, arrays):
    np.savez(tmp_path / "m.npz", **arrays)
    assert f"holds {len(arrays)} arrays" in refusal(tmp_path / "m.npz")


class Trap:
    """Unpickling one creates a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("name", ["o.npy", "o.npz"])
def test_objects_are_never_unpickled(tmp_path, name):
    file, sprung = tmp_path / name, tmp_path / "sprung"
    array = np.array([Trap(sprung)], dtype=object)
    np.save(file, array, allow_pickle=True) if name == "o.npy" else np.savez(file, a=array)
    assert "holds Python objects" in refusal(file)
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(Trap(sprung)))
    assert "cannot be read" in refusal(tmp_path / "plain.npy")
    assert not sprung.exists()


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_sparse_indices_outside_the_matrix(tmp_path, kind):
    np.savez(tmp_path / "s.npz", format=np.array(kind.encode()), shape=(2, 2), data=np.ones(2), indices=np.array([0, 10**6]), indptr=np.array([0, 1, 2]))
    assert "cannot be read" in refusal(tmp_path / "s.npz")


@pytest.mark.parametrize("kind", ["coo", "dia", "csc"])
def test_sparse_shapes_beyond_all_memory(tmp_path, kind):
    sparse.save_npz(tmp_path / "s.npz", sparse.eye(3).asformat(kind))
    arrays = dict(np.load(tmp_path / "s.npz").items())
    np.savez(tmp_path / "s.npz", **arrays | {"shape": np.array([10**13, 3])})
    assert "more than there is memory for" in refusal(tmp_path / "s.npz")


def test_sparse_text(tmp_path):
    np.savez(tmp_path / "s.npz", format=np.array(b"csr"), shape=(1, 2), data=np.array(["a"]), indices=np.array([0]), indptr=np.array([0, 1]))
    assert "cannot be read" in refusal(tmp_path / "s.npz")


def header(shape, dtype="<f8"):
    """The beginning of a .npy file, as text may be anything."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "shape", ["(10000000000000, 8)", "(9223372036854775807, 9223372036854775807)", "(-5, 2)", "(2, 'x')", "(((((", "(1e400,)", "('a' * 9)"]
)
@pytest.mark.parametrize("archive", [False, True])
def test_absurd_headers(tmp_path, shape, archive):
    raw = header(shape) + bytes(64)
    if archive:
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            file.writestr("a.npy", raw)
    else:
        (tmp_path / "a.npy").write_bytes(raw)
    assert "cannot be read" in refusal(tmp_path / ("a.npz" if archive else "a.npy"))


@pytest.mark.parametrize("reader", ["pandas.read_parquet", "pandas.read_csv", "numpy.load"])
def test_what_does_not_fit_into_memory_is_named(tmp_path, reader, monkeypatch):
    def lack(*_, **__):
        raise MemoryError

    monkeypatch.setattr(reader, lack)
    file = tmp_path / {"pandas.read_parquet": "a.parquet", "pandas.read_csv": "a.csv", "numpy.load": "a.npy"}[reader]
    np.save(file, np.ones((3, 2))) if file.suffix == ".npy" else write_table(file, pd.DataFrame({"x": [1.0, 2.0]}))
    assert "more than there is memory for" in refusal(file)


# Damage of every kind


def archive_of(**arrays):
    with io.BytesIO() as file:
        np.savez(file, **arrays)
        return file.getvalue()


def sparse_archive(kind, compressed):
    with io.BytesIO() as file:
        sparse.save_npz(file, sparse.random(20, 8, 0.3, format=kind, random_state=0), compressed=compressed)
        return file.getvalue()


def damaged(raw, rng):
    """Bytes with some of them changed, left out, or added, more often near the beginning, where headers are."""
    result = bytearray(raw)
    for _ in range(rng.integers(1, 4)):
        at, n = int(rng.integers(len(result) + 1 if rng.random() < 0.5 else min(len(result) + 1, 130))), int(rng.integers(1, 9))
        change = rng.integers(5)
        if change == 0:
            del result[at:]
        elif change == 1:
            result[at:at] = rng.bytes(n)
        elif change == 2:
            del result[at : at + n]
        elif change == 3:
            result[at : at + 1] = [int(rng.choice([0, 255, *b",\n\"'()[9"]))]
        elif at < len(result):
            result[at] ^= 1 << int(rng.integers(8))
    return bytes(result or b"\0")


def inside(raw, rng, pack):
    """Damage to what an archive holds rather than to the archive, whose checksums would tell."""
    with zipfile.ZipFile(io.BytesIO(raw)) as whole:
        contents = {name: whole.read(name) for name in whole.namelist()}
    chosen = rng.choice(list(contents))
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if pack else zipfile.ZIP_STORED) as spoiled:
            for name, content in contents.items():
                spoiled.writestr(name, damaged(content, rng) if name == chosen else content)
        return file.getvalue()


def originals(folder, mixed):
    write_table(folder / "t.parquet", mixed)
    numbers = np.random.default_rng(0).normal(size=(20, 3))
    np.save(folder / "t.npy", numbers)
    text = b"a,b,c\n" + b"".join(b'%f,%d,"x, %d"\n' % (x, 100 * y, i) for i, (x, y, _) in enumerate(numbers))
    yield "t.csv", text, damaged
    yield "t.tsv", text.replace(b",", b"\t"), damaged
    yield "t.csv.gz", gzip.compress(text), damaged
    yield "t.csv.gz", text, lambda raw, rng: gzip.compress(damaged(raw, rng))
    yield "t.parquet", (folder / "t.parquet").read_bytes(), damaged
    yield "t.npy", (folder / "t.npy").read_bytes(), damaged
    yield "t.npz", archive_of(table=numbers), damaged
    yield "t.npz", archive_of(table=numbers), lambda raw, rng: inside(raw, rng, False)
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        yield "t.npz", sparse_archive(kind, True), damaged
        yield "t.npz", sparse_archive(kind, False), lambda raw, rng: inside(raw, rng, True)


def test_damaged_files_are_read_or_refused_in_one_line(tmp_path, mixed):
    rng, refusals, n_read = np.random.default_rng(7), [], 0
    for name, raw, spoil in originals(tmp_path, mixed):
        for _ in range(40):
            file = text_file(tmp_path, spoil(raw, rng), name)
            try:
                with warnings.catch_warnings(action="ignore"):
                    table = read_table(file)
                n_read += table.shape[0] >= 0
            except (ValueError, OSError) as error:
                refusals.append((str(file), str(error)))
    assert n_read > 50
    assert len(refusals) > 50
    for file, message in refusals:
        assert file in message
        assert "\n" not in message


# Writing in one step


class Broken(pd.DataFrame):
    """Fails after half of the table is written."""

    def to_csv(self, path, **options):
        path.write_text("half")
        raise RuntimeError("the disk is full")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, mixed):
    file = tmp_path / "t.csv"
    write_table(file, mixed)
    before = file.read_bytes()
    with pytest.raises(RuntimeError, match="disk is full"):
        write_table(file, Broken(mixed))
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["t.csv"]


def test_an_interruption_leaves_nothing(tmp_path):
    def interrupted():
        with replacing(tmp_path / "t.csv") as unfinished:
            unfinished.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_the_file_appears_only_when_it_is_whole(tmp_path):
    with replacing(tmp_path / "t.csv") as unfinished:
        unfinished.write_text("whole")
        assert unfinished.parent == tmp_path
        assert not (tmp_path / "t.csv").exists()
    assert (tmp_path / "t.csv").read_text() == "whole"


def test_where_nothing_can_be_written(tmp_path, mixed):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_table(tmp_path / "nowhere" / "t.csv", mixed)
    with pytest.raises(ValueError, match=r"written as \.csv"):
        write_table(tmp_path / "t.npy", mixed)
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(ValueError, match="is a directory"):
        write_table(tmp_path / "d.csv", mixed)
    assert os.listdir(tmp_path) == ["d.csv"]
