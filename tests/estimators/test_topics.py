"""HDPTopics behind a CountVectorizer, as scikit-learn's own topic model would be used."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import maitre as mt

ANIMALS, WEATHER = "cat dog horse cow sheep goat", "rain snow wind storm cloud sun"


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice((ANIMALS if m % 2 else WEATHER).split(), 15)) for m in range(40)]


@pytest.fixture(scope="module")
def pipeline(texts):
    return make_pipeline(CountVectorizer(), mt.HDPTopics(draws=10, burn_in=200, random_state=0)).fit(texts)


def test_topics_of_two_kinds_of_texts(pipeline, texts):
    vectorizer, topics = pipeline[0], pipeline[-1]
    names = vectorizer.get_feature_names_out()
    leading = [set(words) for words, weight in zip(topics.top_words(3, names), topics.topic_weights_, strict=True) if weight > 0.2]
    assert len(leading) >= 2
    assert all(words <= set(ANIMALS.split()) or words <= set(WEATHER.split()) for words in leading)
    mixtures = pipeline.transform(["cat dog goat", "rain snow sun"])
    np.testing.assert_allclose(mixtures.sum(axis=1), 1.0)
    assert mixtures[0].argmax() != mixtures[1].argmax()
    assert topics.components_.shape == (topics.n_topics_, len(names))
    assert list(topics.get_feature_names_out())[:2] == ["hdptopics0", "hdptopics1"]
    assert pipeline.score(texts) == pytest.approx(-np.log(topics.perplexity(vectorizer.transform(texts))))
    assert topics.perplexity(vectorizer.transform(texts)) < 9.0  # of twelve words, six for each kind


def test_a_clone_draws_the_same(pipeline, texts):
    counts = pipeline[0].transform(texts)
    again = clone(pipeline[-1]).fit(counts)
    np.testing.assert_array_equal(again.components_, pipeline[-1].components_)


def test_a_warm_start_goes_on_bit_for_bit(pipeline, texts):
    counts = pipeline[0].transform(texts)
    options = {"burn_in": 20, "random_state": 0}
    topics = mt.HDPTopics(draws=4, warm_start=True, **options).fit(counts).fit(counts)
    whole = mt.HDPTopics(draws=8, **options).fit(counts)
    np.testing.assert_array_equal(topics.posterior_.log_joint, whole.posterior_.log_joint)
    np.testing.assert_array_equal(topics.components_, whole.components_)
    assert topics.fit(counts[:20]).posterior_.log_joint.shape == (1, 4)  # other documents, another fit


def test_new_documents_are_alike_and_probable(pipeline, texts):
    vectorizer, topics = pipeline[0], pipeline[-1]
    new = vectorizer.transform(["cat dog goat cow", "rain snow sun wind", "cat rain dog snow"])
    similar = topics.similarity(new)
    assert similar.shape == (3, 40)
    assert similar[0, 1::2].mean() > 3 * similar[0, ::2].mean()
    assert topics.similarity().shape == (40, 40)
    density = topics.log_density(new)
    assert density[0] == pytest.approx(np.log(0.5) + 4 * np.log(1 / 6), abs=1.5)
    assert density[2] < density[0]


@pytest.mark.parametrize(("counts", "message"), [([[0.5, 1.0]], "whole numbers"), ([[-1, 2]], "Negative values")])
def test_counts_that_are_none_are_an_error(counts, message):
    with pytest.raises(ValueError, match=message):
        mt.HDPTopics(draws=2, burn_in=2).fit(counts)


class Counted(mt.HDPTopics):
    """With the tag that has scikit-learn's checks use whole numbers."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


def test_the_conventions_of_scikit_learn_are_kept():
    check_estimator(Counted(draws=2, burn_in=2))
