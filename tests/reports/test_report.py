"""The report: one file without a network, readable without JavaScript, and working in a real browser."""

import re
import shutil
import time

import numpy as np
import pandas as pd
import pytest

import maitre as mt
from maitre.model import Model
from maitre.partitions.labels import canonical
from maitre.posterior.posterior import Posterior

pytest.importorskip("bokeh", reason="the report needs bokeh: pip install 'maitre[report]'")
CENTRE = np.repeat([0, 1, 2], [30, 20, 10])


def posterior_of(data, n_draws=40, chains=2):
    rng = np.random.default_rng(0)
    labels = [[canonical(np.where(rng.random(60) < 0.1, rng.integers(0, 4, 60), CENTRE)) for _ in range(n_draws)] for _ in range(chains)]
    labels = np.array(labels, dtype=np.int32)
    draws = {"labels": labels, "n_clusters": labels.max(axis=2) + 1.0, "log_joint": rng.normal(size=(chains, n_draws))}
    return Posterior(Model.of(data), draws, {"init": "auto", "burn_in": 10, "seed": 0, "thin": 1}, notes={"name": "Sixty <points> & more"})


def numbers(n_columns):
    return CENTRE[:, None] * 4.0 + np.random.default_rng(1).normal(size=(60, n_columns))


def mixed():
    table = pd.DataFrame(numbers(2), columns=["height", "weight"]).assign(kind=np.array(["a", "b", "c"])[CENTRE], tall=CENTRE > 0)
    table.loc[3, "height"] = np.nan
    return table


CASES = {"one column": lambda: numbers(1), "two": lambda: numbers(2), "many": lambda: numbers(30), "mixed": mixed, "counts": lambda: __import__("scipy.sparse").sparse.csr_matrix(
    np.random.default_rng(2).poisson(1.0 + 5.0 * (np.arange(8) % 3 == CENTRE[:, None])))}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_everything_is_in_one_file_and_readable_without_scripts(case, tmp_path):
    posterior = posterior_of(CASES[case]())
    mt.report(posterior, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert len(text) < 5_000_000
    assert "Sixty &lt;points&gt; &amp; more" in text
    static = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"(src|href)=\"(?!data:)", static)
    assert static.index(posterior.verdict().sentence.split(":")[0]) < static.index("3 clusters of 30, 20, 10 points") < static.index('id="clusters"')
    assert static.count("<tr data-cluster=") == 3
    assert '<noscript><h2>Picture</h2><img alt="clusters' in static
    assert ("view-profile" in text) == (case != "counts")


def test_a_run_without_data_and_a_missing_library_are_told(tmp_path, monkeypatch):
    import dataclasses

    posterior = posterior_of(numbers(2))
    posterior.model = dataclasses.replace(posterior.model, data=None)
    with pytest.raises(ValueError, match="no data to show"):
        mt.report(posterior, tmp_path / "report.html")
    monkeypatch.setitem(__import__("sys").modules, "bokeh", None)
    with pytest.raises(ValueError, match=r"pip install 'maitre\[report\]'"):
        mt.report(posterior, tmp_path / "report.html")


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: the report is not looked at in a browser")
    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if chromium is None or driver is None:
        pytest.skip("no chromium and chromedriver (on Debian: apt-get install chromium chromium-driver): the report is not looked at in a browser")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,1400"):
        options.add_argument(argument)
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    yield found
    found.quit()


def opened(browser, file):
    browser.get(f"file://{file}")
    for _ in range(200):
        if browser.execute_script("return document.body.dataset.ready") == "yes":
            return
        time.sleep(0.1)
    raise AssertionError("the views have not appeared within 20 seconds")


SELECTED = "return Object.values(Bokeh.index)[0].model.document.get_model_by_name('points').selected.indices.length"


def test_in_a_browser(browser, tmp_path):
    mt.report(posterior_of(mixed()), tmp_path / "report.html")
    opened(browser, tmp_path / "report.html")
    time.sleep(0.5)
    button, detail = browser.find_element("css selector", "#clusters tbody tr:nth-child(2) button"), browser.find_element("id", "detail")
    assert browser.execute_script(SELECTED) == 0
    button.click()
    assert browser.execute_script(SELECTED) == 20
    assert detail.text.startswith("Cluster 1: 20 points (33.3%)")
    button.click()
    assert browser.execute_script(SELECTED) == 0
    assert detail.text == ""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    opened(browser, tmp_path / "report.html")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    requests = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name).filter(name => !name.startsWith('data:'))")
    assert requests == []
