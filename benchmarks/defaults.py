"""What a user who sets nothing gets: galaxy velocities, clusters in few and many dimensions beside scikit-learn, MNIST digits.

    python benchmarks/defaults.py

MNIST comes from the folder MAITRE_DATA (default ../shared/data). Times are CPU seconds with one BLAS thread, kernels compiled beforehand.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from datasets import mnist_digits, present
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

import maitre as mt
from maitre.data.simulate import built_in, gaussian_clusters


def cpu_seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    return function(), time.process_time() - started


def galaxy() -> None:
    velocities = built_in("galaxy").iloc[:, [1]].to_numpy() / 1000.0
    posterior, seconds = cpu_seconds(
        lambda: mt.sample(velocities, family=mt.families.NormalInverseGamma(), draws=5000, burn_in=1000, chains=4, seed=0, progress=False)
    )
    print(f"Galaxy, 82 velocities, NormalInverseGamma, Dirichlet process, 4 chains × 5000: {seconds:.1f} s")
    print("  posterior of K:", ", ".join(f"{k}: {p:.3f}" for k, p in posterior.k_probabilities().items()))
    for name, row in posterior.diagnostics().items():
        print(f"  {name}: R̂ {row['r_hat']:.4f}, effective draws {row['ess']:.0f}")


def separated_clusters() -> None:
    x, truth = gaussian_clusters(10_000, 40, 40, 2.0, seed=0)
    mt.DPMixture(random_state=0, draws=1, burn_in=1).fit(x[:200])  # compiles
    for repeat in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs, slow = cpu_seconds(lambda: BayesianGaussianMixture(n_components=100, covariance_type="spherical", random_state=0).fit_predict(x))
        ours, fast = cpu_seconds(lambda: mt.DPMixture(random_state=0).fit_predict(x))
        rand = mt.partitions.adjusted_rand
        print(
            f"40 clusters in 40 dimensions, n = 10,000 (run {repeat + 1}): DPMixture {fast:.2f} s, adjusted Rand {rand(truth, ours):.4f}; BayesianGaussianMixture(100) {slow:.2f} s, {rand(truth, theirs):.4f}; ratio {fast / slow:.2f}"
        )


def dimensions() -> None:
    """Ten clusters in ever more dimensions; in few they overlap."""
    for n_columns in (2, 8, 32, 64, 128, 512):
        x, truth = gaussian_clusters(5_000, n_columns, 10, 2.0, seed=0)
        mt.DPMixture(random_state=0).fit(x)  # compiles
        ours, fast = cpu_seconds(lambda x=x: mt.DPMixture(random_state=0).fit_predict(x))
        line = f"10 clusters in {n_columns} dimensions, n = 5,000: DPMixture {fast:.2f} s, adjusted Rand {mt.partitions.adjusted_rand(truth, ours):.3f}"
        for n_components in (20, 100):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rival = BayesianGaussianMixture(n_components=n_components, covariance_type="diag", random_state=0)
                theirs, slow = cpu_seconds(lambda x=x, rival=rival: rival.fit_predict(x))
            line += (
                f"; diagonal BayesianGaussianMixture({n_components}) {slow:.2f} s, {mt.partitions.adjusted_rand(truth, theirs):.3f}, ratio {fast / slow:.2f}"
            )
        print(line)


def mnist() -> None:
    if not present("mnist"):
        return
    x = mnist_digits(3000)
    family = mt.families.KnownCovarianceGaussian(0.0, 100.0, 16.0)
    posterior, seconds = cpu_seconds(lambda: mt.sample(x, family=family, prior=mt.priors.DirichletProcess(1.0), draws=100, burn_in=0, chains=1, progress=False))
    print(f"MNIST 3,000 × 50, covariance 16·I: 100 sweeps in {seconds:.2f} s, K {posterior.n_clusters[0, -1]}, log joint {posterior.log_joint[0, -1]:.0f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        galaxy()
        separated_clusters()
        dimensions()
        mnist()
