"""HDPTopics behind a CountVectorizer, as scikit-learn's own topic model would be used."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

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


@pytest.mark.parametrize(("counts", "message"), [([[0.5, 1.0]], "whole numbers"), ([[-1, 2]], "Negative values")])
def test_counts_that_are_none_are_an_error(counts, message):
    with pytest.raises(ValueError, match=message):
        mt.HDPTopics(draws=2, burn_in=2).fit(counts)
