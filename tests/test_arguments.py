"""Whatever is given to `mt.sample` and to the constructors of moves: a result, or a `ValueError` of one line."""

import numpy as np
import pytest

import maitre as mt

ODD = [
    None,
    -1,
    0,
    1,
    2.5,
    np.nan,
    np.inf,
    -np.inf,
    True,
    "",
    "x",
    "gibbs",
    "1",
    [],
    [1],
    [None],
    {},
    {"a": 1},
    1 + 2j,
    10**30,
    np.int64(2),
    np.float64(3.0),
    b"x",
    object(),
    (1, 2),
]
NAMES = ["moves", "draws", "burn_in", "thin", "chains", "seed", "init", "engine", "threads", "time_budget", "progress", "store_data", "family", "prior"]


@pytest.mark.parametrize("n_calls", [300, pytest.param(4000, marks=pytest.mark.long)])
def test_odd_arguments_of_sample(n_calls):
    rng = np.random.default_rng(0)
    for _ in range(n_calls):
        options = {"family": "NormalInverseGamma", "draws": 2, "burn_in": 1, "chains": 1, "moves": "gibbs", "progress": False}
        for name in rng.choice(NAMES, rng.integers(1, 3), replace=False):
            options[str(name)] = ODD[rng.integers(len(ODD))]
        if options["draws"] == 10**30 or options.get("thin") == 10**30:
            continue
        try:
            posterior = mt.sample([[0.0], [0.1], [5.0]], **options)
        except ValueError as error:
            message = str(error)
        else:
            message = ""
            assert np.isfinite(posterior.log_joint).all(), options
        assert "\n" not in message, options


MOVES = {mt.moves.Gibbs: 1, mt.moves.Auxiliary: 1, mt.moves.SplitMerge: 3, mt.moves.Permutation: 10, mt.moves.ExplicitLinks: 1}


@pytest.mark.parametrize("move", MOVES)
def test_odd_options_of_moves(move):
    import inspect

    for name in inspect.signature(move).parameters:
        for value in ODD:
            try:
                made = move(**{name: value})
            except ValueError as error:
                message = str(error)
            else:
                message = repr(made)
            assert "\n" not in message


X = [[0.0], [0.1], [5.0]]
NEIGHBOURS = mt.priors.DistanceDependent.neighbours


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mt.sample(float("nan")), "the data are float"),
        (lambda: mt.sample(X, seed="one"), "seed is 'one'"),
        (lambda: mt.sample(X, thin=None), "thin is None"),
        (lambda: mt.sample(X, chains=None), "chains is None"),
        (lambda: mt.sample(X, moves=b"x"), "moves is b'x'"),
        (lambda: mt.sample(X, init=[np.nan] * 3), "init is list and no vector of labels"),
        (lambda: mt.load(None), "path is None"),
        (lambda: mt.resume(3), "path is 3"),
        (lambda: mt.priors.DistanceDependent(10**400, mt.decays.exponential(1.0)), "the distances are not a matrix of numbers"),
        (lambda: mt.priors.DistanceDependent([[0.0]], mt.decays.exponential(1.0), sequential="yes"), "sequential is 'yes'; expected True or False"),
        (lambda: NEIGHBOURS(X, radius=10**400), "radius is 1000"),
        (lambda: NEIGHBOURS(X, radius="near"), "radius is 'near'; expected a finite number above 0"),
        (lambda: NEIGHBOURS(X, radius=np.inf), "radius is inf"),
        (lambda: NEIGHBOURS(X, k=True), "k is True"),
        (lambda: NEIGHBOURS(X, metric=[]), r"metric is \[\]; expected one of"),
        (lambda: NEIGHBOURS(None), "points is None"),
        (lambda: mt.families.Categorical(levels=3), "levels is 3; expected a list of levels for each column"),
        (lambda: mt.families.Categorical(levels=[1, 2]), "levels is"),
        (lambda: mt.DPMixture(family=np.array([1, 2])).fit(X), "unknown family"),
        (lambda: mt.DPMixture(progress=np.array([1, 2])).fit(X), "progress is array"),
        (lambda: mt.MAPSearch(heuristic="best").fit(X), "heuristic is 'best'"),
    ],
)
def test_the_message_names_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
