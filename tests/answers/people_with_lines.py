"""People whose attributes go together by a known law, for tests of moments, lines and tests."""

import numpy as np

from metricldp import Categorical, Integer, Randomness, Survey

SURVEY = Survey.design(
    {
        "x": Integer(0, 9, epsilon=1.2, mechanism="geometric", per=1),
        "y": Integer(0, 12, epsilon=1, mechanism="threshold", per=1),
        "g": Categorical(["n", "s", "e"], epsilon=2),
        "h": Categorical(["f", "m"], epsilon=2),
    }
)
"""Small, so that a run takes milliseconds."""


def law(apart=False):
    """The probability of each (x, y, g, h); with `apart` all four are independent."""
    x, y, g, h = np.indices((10, 13, 3, 2))
    of_g = np.array([0.5, 0.3, 0.2])[g]
    middle = 4.5 if apart else 3.0 + 1.0 * g
    of_x = np.exp(-((x - middle) ** 2) / 12)
    of_x = of_x / of_x.sum(axis=0, keepdims=True)
    line = 5.0 if apart else 2.0 + 0.6 * x + 1.0 * (g == 1) - 0.8 * (g == 2) + 0.7 * h
    of_y = np.exp(-((y - line) ** 2) / 6)
    of_y = of_y / of_y.sum(axis=1, keepdims=True)
    return of_g * of_x * of_y * 0.5


LAWS = {False: law(), True: law(apart=True)}


def drawn(n, seed, apart=False):
    """So many people, as positions (4, n)."""
    share = LAWS[apart].reshape(-1)
    cells = np.random.default_rng(seed).choice(len(share), n, p=share / share.sum())
    return np.array(np.unravel_index(cells, LAWS[apart].shape))


def people_of(cells):
    x, y, g, h = cells
    return {"x": x, "y": y, "g": np.array(["n", "s", "e"])[g], "h": np.array(["f", "m"])[h]}


def tallied(cells, seed):
    return SURVEY.tally(SURVEY.randomize(people_of(cells), randomness=Randomness.seeded(seed)))


def everybody():
    """All kinds of people, and the share of each: the population."""
    share = LAWS[False].reshape(-1)
    return np.indices(LAWS[False].shape).reshape(4, -1), share / share.sum()


def line_of(cells, share):
    """Least squares of y on x, g and h; coefficients, R^2 and the residuals."""
    x, y, g, h = cells
    columns = np.array([np.ones(len(x)), x, g == 1, g == 2, h == 1], dtype=float)
    found = np.linalg.solve((columns * share) @ columns.T, (columns * share) @ y)
    left = share @ (y - found @ columns) ** 2
    middle = share @ y / share.sum()
    return found, 1 - left / (share @ (y - middle) ** 2)


def held(make, truth, runs, n, target, method="auto"):
    """The share of runs in which intervals of 95% hold the truth, of each answer.

    Of respondents the same people are blurred again; of a population they are drawn again.
    """
    same = drawn(n, 77)
    kept = []
    for seed in range(runs):
        cells = same if target == "respondents" else drawn(n, 1000 + seed)
        who = (cells, np.ones(n) / n) if target == "respondents" else everybody()
        answers, real = make(tallied(cells, seed), target), np.atleast_1d(truth(*who))
        ends = np.array([answer.confidence_interval(0.95, method=method) for answer in answers])
        kept.append((ends[:, 0] <= real) & (real <= ends[:, 1]))
    return np.mean(kept, axis=0)


def rejected(test, runs, n):
    """The share of runs with a p-value below 0.05 where nothing goes together."""
    found = [test(tallied(drawn(n, 5000 + seed, apart=True), seed)) for seed in range(runs)]
    return float(np.mean(np.array(found) < 0.05))
