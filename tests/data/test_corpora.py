"""Corpora come in from all their forms with the same counts, and what is wrong with a file is said with the place where it is."""

import gzip

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

from maitre.data.corpora import Corpus, read_corpus, read_documents
from maitre.data.groups import GroupedRows

COUNTS = np.array([[2, 0, 1], [0, 3, 0], [0, 0, 0]])
WORDS = ["ant", "bee", "cow"]


def lda_c(path):
    path.write_text("2 0:2 2:1\n1 1:3\n0\n")


def uci(path):
    path.write_text("3\n3\n3\n1 1 2\n1 3 1\n2 2 3\n")


def table(path):
    pd.DataFrame(COUNTS, columns=WORDS).to_csv(path, index=False)


FORMS = {
    "a.npz": lambda path: sparse.save_npz(path, sparse.csr_matrix(COUNTS)),
    "a.npy": lambda path: np.save(path, COUNTS),
    "a.mtx": lambda path: mmwrite(path, sparse.csr_matrix(COUNTS)),
    "a.ldac": lda_c,
    "docword.a.txt": uci,
    "docword.a.txt.gz": lambda path: path.write_bytes(gzip.compress(b"3\n3\n3\n1 1 2\n1 3 1\n2 2 3\n")),
    "a.csv": table,
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_the_same_counts(name, tmp_path):
    FORMS[name](tmp_path / name)
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    corpus = read_corpus(tmp_path / name, tmp_path / "words.txt")
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)
    assert corpus.vocabulary == WORDS
    assert corpus.n_empty == 1


def test_the_words_of_a_uci_file_are_found_beside_it(tmp_path):
    uci(tmp_path / "docword.a.txt")
    (tmp_path / "vocab.a.txt").write_text("ant\nbee\ncow\n")
    assert read_corpus(tmp_path / "docword.a.txt").vocabulary == WORDS


def test_texts_from_a_folder_a_column_and_lines(tmp_path):
    texts = ["The cow and the COW", "a bee, the cow", ""]
    (tmp_path / "texts" / "deep").mkdir(parents=True)
    for name, text in zip(("b", "deep/c", "z"), texts, strict=True):
        (tmp_path / "texts" / f"{name}.txt").write_text(text)
    pd.DataFrame({"id": [1, 2, 3], "text": texts}).to_csv(tmp_path / "texts.csv", index=False)
    (tmp_path / "lines.txt").write_text("\n".join(texts) + "\n")
    for path in ("texts", "texts.csv", "lines.txt"):
        corpus = read_corpus(tmp_path / path, min_documents=1)
        assert corpus.vocabulary == ["bee", "cow"]
        np.testing.assert_array_equal(corpus.counts.toarray(), [[0, 2], [1, 1], [0, 0]])
    assert read_corpus(tmp_path / "texts", min_documents=1).documents == ["b", "deep/c", "z"]
    assert read_corpus(tmp_path / "texts").vocabulary == ["cow"]  # words of one document are left out
    assert read_corpus(tmp_path / "texts", stop_words="none", min_documents=1).vocabulary == ["and", "bee", "cow", "the"]
    (tmp_path / "stop.txt").write_text("cow\n")
    assert "cow" not in read_corpus(tmp_path / "texts", stop_words=str(tmp_path / "stop.txt"), min_documents=1).vocabulary
    (tmp_path / "some.txt").write_text("bee\nhorse\n")
    np.testing.assert_array_equal(read_corpus(tmp_path / "texts", tmp_path / "some.txt").counts.toarray(), [[0, 0], [1, 0], [0, 0]])


def test_rare_words_go_and_documents_stay():
    corpus = Corpus(sparse.csr_matrix(COUNTS), WORDS)
    assert corpus.trimmed(min_count=2).vocabulary == ["ant", "bee"]
    assert corpus.trimmed({"ant", "cow"}).counts.toarray().tolist() == [[0], [3], [0]]
    with pytest.raises(ValueError, match="vocabulary is empty"):
        corpus.trimmed(min_documents=2)


def written(path, text):
    path.write_text(text)
    return path


def out_of_range(path):
    np.savez(path, format=b"csr", shape=(2, 3), data=np.array([1, 1]), indices=np.array([0, 7]), indptr=np.array([0, 1, 2]))
    return path


def in_a_matrix(path, counts):
    np.save(path, np.array(counts))
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: written(f / "a.dat", "1 0:1\n2 0:1 5:x\n"), "line 2 .* word:count pairs"),
        (lambda f: written(f / "a.dat", "1 0:-1\n"), "line 1 .* the count -1"),
        (lambda f: written(f / "a.dat", "2 0:1\n"), "line 1 .* says it has 2 different words"),
        (lambda f: written(f / "a.dat", "1 -3:1\n"), "line 1 .* out of range"),
        (lambda f: written(f / "docword.a.txt", "2\n3\n1\n1 4 1\n"), "line 4 .* the word 4, which is out of range"),
        (lambda f: written(f / "docword.a.txt", "2\n3\n1\n1 2 1.5\n"), "line 4 .* three whole numbers"),
        (lambda f: written(f / "docword.a.txt", "2\n3\n2\n1 2 1\n"), "says it has 2 entries and has 1"),
        (lambda f: written(f / "a.mtx", "no matrix"), "cannot be read as a Matrix Market"),
        (lambda f: in_a_matrix(f / "a.npy", [[1.5, 1.0]]), "word 0 in document 0 is"),
        (lambda f: in_a_matrix(f / "a.npy", [[1, -1]]), "word 1 in document 0 is"),
        (lambda f: in_a_matrix(f / "a.npy", np.zeros((2, 0))), "vocabulary is empty"),
        (lambda f: out_of_range(f / "a.npz"), "document 1 .* the word 7, which is out of range"),
        (lambda f: written(f / "a.txt", ". . .\n- -\n"), "vocabulary is empty"),
        (lambda f: written(f / "a.pdf", "%PDF"), "expected a corpus"),
        (lambda f: f / "a.npz", "there is no file"),
        (lambda f: f, "no .txt files"),
    ],
)
def test_what_is_wrong_is_said(make, message, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_corpus(make(tmp_path))


def test_a_vocabulary_of_another_length_is_an_error(tmp_path):
    (tmp_path / "words.txt").write_text("ant\nbee\n")
    for name, message in {"a.npz": "vocabulary has 2 words and the corpus 3", "a.ldac": "out of range", "docword.a.txt": "says it has 3"}.items():
        FORMS[name](tmp_path / name)
        with pytest.raises(ValueError, match=message):
            read_corpus(tmp_path / name, tmp_path / "words.txt")
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(ValueError, match="is empty"):
        read_corpus(tmp_path / "a.npz", tmp_path / "none.txt")


def test_counts_of_every_type_are_taken():
    for kind in ("bool", "int8", "uint16", "uint32", "uint64", "float32"):
        corpus = GroupedRows.of_counts((COUNTS > 0).astype(kind))
        assert corpus.raw.tolist() == [0, 2, 1]
        assert corpus.starts.tolist() == [0, 2, 3, 3]


def test_columns_of_counts_are_found_by_the_names_of_the_words(tmp_path):
    pd.DataFrame(COUNTS[:, ::-1], columns=WORDS[::-1]).to_csv(tmp_path / "a.csv", index=False)
    np.testing.assert_array_equal(read_documents(tmp_path / "a.csv", WORDS).counts.toarray(), COUNTS)
    assert read_corpus(tmp_path / "a.csv").vocabulary == WORDS[::-1]


def test_a_table_with_several_texts_asks_which(tmp_path):
    pd.DataFrame({"title": ["ant", "bee"], "text": ["cow cow", "cow"]}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match="--column"):
        read_corpus(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="no column 'body'"):
        read_corpus(tmp_path / "a.csv", column="body")
    assert read_corpus(tmp_path / "a.csv", column="text").vocabulary == ["cow"]
