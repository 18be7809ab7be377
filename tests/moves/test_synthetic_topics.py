"""Corpora of ten topics: a chain finds them from one topic and from fifty, because splits and merges of whole tables take it there."""

import numpy as np
import pytest
from scipy import sparse

import maitre as mt
from maitre.data.groups import GroupedRows
from maitre.families.words import Words
from maitre.model import Model
from maitre.numerics.rng import stream
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.states.franchise import FranchiseState


def ten_topics(seed):
    """500 documents of 60 words, of a vocabulary of 100."""
    rng = np.random.default_rng(seed)
    phi, theta = rng.dirichlet(np.full(100, 0.1), size=10), rng.dirichlet(np.full(10, 0.1), size=500)
    return sparse.csr_matrix(np.array([rng.multinomial(60, shares @ phi) for shares in theta]))


@pytest.mark.long
@pytest.mark.parametrize("start", [1, 50])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_ten_topics_are_found_from_one_and_from_fifty(seed, start):
    model = Model.of(GroupedRows.of_counts(ten_topics(seed)), Words(0.1, 100), HierarchicalDirichletProcess(1.0, 1.0))
    state, move = FranchiseState(model, np.random.default_rng(0).integers(0, start, model.n)), mt.moves.Direct(20)
    for t in range(500):
        move.step(state, stream(seed, t))
        if t % 10 == 0:
            state.commit()
    assert np.count_nonzero(state.sizes >= 0.005 * model.n) == 10
