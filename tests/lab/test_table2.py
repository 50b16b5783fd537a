"""Table 2 again: slopes, promises, who wins where, and the check of simulation against theory."""

import re
from dataclasses import replace

import numpy as np
import pytest

from metricldp.app.runner import write
from metricldp.basics.errors import SurveyError
from metricldp.channels.mechanism import ANY_TWO, PER_STEP
from metricldp.design.registry import every_mechanism
from metricldp.lab.contest import WITHIN, Contender, JointContender, in_table_2
from metricldp.lab.pages import COLORS, GREY
from metricldp.lab.reproduce import page, table2, table2_page, table2_pictures
from metricldp.lab.reproduce.table2 import attributes_of, crowd_of

SMALL = replace(
    table2.QUICK,
    people=300,
    sizes=(16, 64, 128, 256),
    sizes_of_two=(4, 8, 16),
    attributes=(1, 2),
    middle=16,
    meanings=((1, 8, (1, 4, 7)), (1, 64, (1, 8, 63)), (2, 6, (1, 5))),
    questions=20,
    questions_of_many=8,
    quantiles=3,
    resamples=20,
    checks=((1, 8, 1.0),),
    repetitions=60,
)


@pytest.fixture(scope="module")
def points():
    return table2.points(SMALL)


@pytest.fixture(scope="module")
def checked():
    return table2.check(SMALL)


def there(mechanism):
    contender = next(c for c in in_table_2() if c.mechanism == mechanism)
    try:
        return bool(contender.enter(attributes_of(1, 16, 1.0)))
    except SurveyError:
        return False


# Growth


def test_a_power_of_the_logarithm_is_found():
    sizes = [16, 64, 256, 1024]
    exact = [3 * np.log2(m) ** 2 for m in sizes]
    assert table2.exponent(sizes, exact) == pytest.approx(2)
    assert table2.exponent(sizes, [1.7] * 4) == 0


def growing(errors, resamples=(), what="error"):
    """Points of one contender with these errors at m = 16, 32, ..., and their slope."""
    start = 4 if what == "error" else 6
    found = [
        table2.Point(
            *("m", "x", "x", PER_STEP, 1, 2 ** (start + k), 1, 1.0, 1.0, 1.0, error),
            quantile=error,
            errors=tuple(row[k] for row in resamples),
            quantiles=tuple(row[k] for row in resamples),
        )
        for k, error in enumerate(errors)
    ]
    return next(s for s in table2.slopes(found) if s.what == what)


@pytest.mark.parametrize("what", ["error", "quantile"])
def test_exponents_and_their_intervals(what):
    """Resamples of all sizes together: a common factor is no doubt about the exponent."""
    logs = np.arange(4, 9) if what == "error" else np.arange(6, 11)
    truth = 2.0 * logs**1.5
    scaled = [factor * truth for factor in (0.5, 1.0, 2.0)]
    slope = growing(truth, scaled, what)
    assert (slope.exponent, slope.low, slope.high) == pytest.approx((1.5, 1.5, 1.5))
    assert slope.local == pytest.approx(1.5)
    spread = [2.0 * logs**power for power in np.linspace(1, 2, 41)]
    slope = growing(truth, spread, what)
    assert (slope.low, slope.high) == pytest.approx((1.025, 1.975))


def test_a_curve_that_levels_off_has_a_small_local_exponent():
    slope = growing([1.0, 1.5, 1.75, 1.83, 1.84], [[1.0, 1.5, 1.75, 1.83, 1.84]])
    assert slope.exponent > 0.5
    assert slope.local < 0.05


def test_too_few_sizes_and_constant_errors():
    short = growing([1.0, 2.0, 3.0], [[1.0, 2.0, 3.0]] * 5)
    assert (short.low, short.high) == (None, None)
    flat = growing([1.3] * 5, [[1.3] * 5] * 5)
    assert (flat.exponent, flat.low, flat.high, flat.local) == (0, 0, 0, 0)


def test_resamples_are_the_same_people_and_questions_at_every_size():
    drawn = [
        table2.resampled(SMALL, crowd_of(attributes_of(1, m, 1.0), 200, 5), 20) for m in (16, 64)
    ]
    for small, large in zip(drawn[0][0], drawn[1][0], strict=True):
        np.testing.assert_array_equal(small.positions["v1"], large.positions["v1"] // 4)
    np.testing.assert_array_equal(drawn[0][1], drawn[1][1])


def test_resamples_scatter_around_the_error(points):
    mine = [p for p in points if p.panel == "m" and p.mechanism == "geometric"]
    for p in mine:
        assert len(p.errors) == SMALL.resamples
        assert min(p.errors) < p.error < max(p.errors)


def test_epsilon_per_step_does_not_grow_with_m(points):
    """Exactly: the error of every m is below that of the next lines' bound, for any m."""
    for mechanism in ("geometric", "threshold", "threshold-paper"):
        errors = {p.size: p.error for p in points if (p.panel, p.mechanism) == ("m", mechanism)}
        kappa = 1 / np.tanh(0.5)
        assert max(errors.values()) < (kappa**2 - 1) / 2 * 1.1
        assert errors[256] < 1.15 * errors[16]
    fitted = {
        s.mechanism: s for s in table2.slopes(points) if (s.attributes, s.what) == (1, "error")
    }
    assert fitted["geometric"].high < 0
    assert abs(fitted["threshold"].exponent) < 0.2


@pytest.mark.parametrize("mechanism", ["hierarchy-2", "hierarchy-4", "haar"])
def test_hierarchies_grow_like_a_power_of_log_m(points, mechanism):
    if not there(mechanism):
        pytest.skip("not registered")
    fitted = {
        s.mechanism: s for s in table2.slopes(points) if (s.attributes, s.what) == (1, "error")
    }
    assert 1 < fitted[mechanism].exponent < 3.5


# Promises


def test_every_point_has_two_epsilons(points):
    for p in points:
        if p.promise == PER_STEP:
            assert p.step == pytest.approx(p.epsilon / p.within)
            assert p.width == pytest.approx(p.attributes * (p.size - 1) * p.epsilon / p.within)
        elif p.promise == WITHIN:
            windows = -(-(p.size - 1) // p.within)
            assert (p.step, p.width) == (p.epsilon, p.attributes * windows * p.epsilon)
        elif not p.mechanism.startswith("hio"):
            assert (p.step, p.width) == (p.epsilon, p.attributes * p.epsilon)
    last = [p for p in table2_pictures.meant(points, 1, 64) if p.within == 63]
    assert all(p.width == pytest.approx(1) for p in last), "an equal promise at the width"


def test_an_equal_meaning(points):
    """At w = m - 1 all promises have the same width, and epsilon per step is by far the worst."""
    for attributes, size, withins in SMALL.meanings:
        here = table2_pictures.meant(points, attributes, size)
        best = {
            (w, promise): min(p.error for p in here if (p.within, p.promise) == (w, promise))
            for w in withins
            for promise in (PER_STEP, WITHIN, ANY_TWO)
        }
        first, last = withins[0], withins[-1]
        assert best[first, PER_STEP] < best[first, ANY_TWO]
        assert best[last, PER_STEP] > 5 * best[last, ANY_TWO]
        assert best[first, WITHIN] == pytest.approx(best[first, PER_STEP], rel=1e-3)
        assert best[last, WITHIN] == pytest.approx(best[last, ANY_TWO], rel=1e-3)
        for w in withins[1:-1]:
            assert best[w, WITHIN] < 0.95 * min(best[w, PER_STEP], best[w, ANY_TWO])


def test_what_is_designed_for_all_pairs_is_the_best_plain_mechanism(points):
    here = [p for p in table2_pictures.meant(points, 1, 8) if p.promise == ANY_TWO]
    first, *others = sorted({(p.error, p.title) for p in here})
    assert first[1] == "designed, all pairs alike"
    assert others[0][1] == "shaped noise, all pairs alike"
    assert 1.2 * first[0] < others[1][0]


def test_where_tents_have_no_channel_their_curve_is_broken(points):
    """Within 8 of 64 values some would be below 0; a line across would be made up."""
    panel = table2_pictures.pictures(SMALL, points)[-2].rows[1][0]
    tents = next(curve for curve in panel.curves if curve.label == "tents")
    assert np.isfinite(tents.y).tolist() == [True, False, True]


def test_people_are_the_same_at_every_size():
    small, large = (crowd_of(attributes_of(1, m, 1.0), 200, 5).positions["v1"] for m in (16, 64))
    np.testing.assert_array_equal(small, large // 4)


# The check


def test_simulation_agrees(checked):
    assert table2.holds(checked)
    assert {c.mechanism for c in checked} >= {"geometric", "threshold", "response"}


class Careless(Contender):
    """Blurs with a quarter more epsilon than it decodes with."""

    def enter(self, attributes):
        entry = super().enter(attributes)
        more = {n: replace(a, epsilon=1.25 * a.epsilon) for n, a in attributes.items()}
        other = super().enter(more)
        object.__setattr__(entry, "totals", other.totals)
        return entry


def test_the_check_rejects_a_careless_contender():
    careless = Careless("threshold", "threshold bits", PER_STEP, "nobody")
    found = table2.check(SMALL, contenders=[careless])
    assert len(found) == 1
    assert not table2.holds(found)


# The page


def test_the_page_says_who_wins_where(points, checked):
    text = table2_page.describe(SMALL, points, table2.slopes(points), checked)
    words = " ".join(text.split())
    assert "there are always two columns for them" in words
    assert "threshold bits: stays" in words
    assert "1.84 at epsilon = 1, is the most there can be" in words
    assert "Between the last two sizes its exponent is " in words
    assert "(too few sizes)" in words
    assert "clipped geometric noise: falls" in words
    assert "Epsilon between any two beats epsilon per step from w = " in words
    assert "within w is never behind." in words
    assert "### 2 attributes of 6 values" in words
    assert "The check at one false alarm in 1,000,000 runs holds." in words
    wrong = [replace(checked[0], surprise=1e-12)]
    assert "runs FAILS." in table2_page.describe(SMALL, points, table2.slopes(points), wrong)


def test_no_number_of_the_page_is_without_its_promise(points, checked):
    text = table2_page.describe(SMALL, points, table2.slopes(points), checked)
    heads = re.findall(r"```text\n(.*)", text)
    assert len(heads) == 11
    for head in heads:
        assert ("step" in head and "width" in head) or "w = 1" in head
    assert "m = 256 and epsilon = 1 per step it is 255" in " ".join(text.split())
    assert "nan" not in text
    assert re.search(r"^HIO with Hadamard response, epsilon in all .*too few sizes", text, re.M)
    grid = table2_page._meaning_grid(table2_pictures.meant(points, 1, 64)).splitlines()
    kept = {line.partition("  ")[0]: line.split()[-3:] for line in grid}
    assert kept["epsilon within w: step"] == ["1", "1", "1"]
    assert kept["epsilon within w: width"] == ["63", "8", "1"]
    assert kept["epsilon per step: step"] == ["1", "0.125", "0.0159"]
    assert kept["epsilon per step: width"] == ["63", "7.88", "1"]


def test_errors_that_do_not_change_have_an_exponent():
    assert table2.exponent([16, 32, 64, 128], [2.0] * 4) == 0


def test_every_picture_says_what_its_lines_mean(points):
    for picture in table2_pictures.pictures(SMALL, points):
        assert len(picture.title) < 90
        note = " ".join(picture.note.split())
        assert "Solid lines" in note
        assert "Dashes: ε between any two values" in note
        assert ("within" in picture.files[0]) == ("Dots: ε within w," in note)
        assert {curve.color for curve in curves(picture)} <= {*COLORS, GREY}


def test_joint_mechanisms_need_several_attributes():
    joint = next(c for c in in_table_2() if isinstance(c, JointContender))
    with pytest.raises(SurveyError, match="several attributes together"):
        joint.enter(attributes_of(1, 8, 1.0))


@pytest.mark.parametrize("promise", [PER_STEP, ANY_TWO])
def test_one_more_contender_is_grey_and_changes_no_colour(points, promise):
    known = {c.label: c.color for p in table2_pictures.pictures(SMALL, points) for c in curves(p)}
    more = [
        replace(points[0], mechanism=f"new-{k}", title=f"newcomer {k}", promise=promise)
        for k in range(30)
    ]
    drawn = curves(table2_pictures.pictures(SMALL, [*points, *more])[0])
    colors = {curve.label: curve.color for curve in drawn}
    assert all(colors.pop(f"new-{k}") == GREY for k in range(30))
    assert colors.items() <= known.items()


def test_curves_are_called_as_the_mechanisms_are(points):
    """As surveys name them; with its promise, where a name stands for several."""
    known = {contender.mechanism for contender in in_table_2()} | {"auto"}
    known |= {mechanism.name for mechanism in every_mechanism()}
    for picture in table2_pictures.pictures(SMALL, points):
        for row in picture.rows:
            for panel in row:
                labels = [curve.label for curve in panel.curves]
                assert len(set(labels)) == len(labels)
                names = {label.partition(",")[0].removesuffix(" over cells") for label in labels}
                assert names <= known


def curves(picture):
    return [curve for row in picture.rows for panel in row for curve in panel.curves]


@pytest.mark.slow
def test_the_quick_version(tmp_path):
    found = page("table2", quick=True)
    assert "runs holds." in found.text
    assert all(path.stat().st_size > 1000 for path in write(found, tmp_path))
