"""The audit passes every real mechanism and catches every broken twin.

Each audit has a false-alarm rate of at most 1e-9 here, so all of them together far below 1e-6.
"""

import dataclasses
import itertools
import json
import math
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Lp,
    Ordinal,
    QueryError,
    Randomness,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
    Weight,
)
from metricldp.cli import main as cli
from metricldp.lab.audit import Command, Finding, audit, clients, ratios
from metricldp.lab.audit.sample import Sample
from metricldp.lab.audit.trials import Family, Prospect, drawn_tail, tail
from metricldp.mechanisms import GeometricChannel, ThresholdChannel
from metricldp.mechanisms.registry import every_mechanism
from metricldp.reports.bytes import header, pack
from metricldp_core.device import Device
from metricldp_core.manifest import Manifest
from metricldp_core.random_words import Words

N, FALSE_ALARM = 20_000, 1e-9


def audited(survey, encoder=None, n=N, **more):
    return audit(survey, encoder, n=n, false_alarm=FALSE_ALARM, **more)


def broken(found):
    return {finding.verdict for finding in found.findings}


# Real mechanisms ---------------------------------------------------------------------------------

AGES = {"x": Integer(0, 6, epsilon=1, per=1), "y": Integer(10, 19, epsilon=1, per=1)}
BETWEEN = {"x": AGES["x"], "z": Ordinal(["no", "yes"], epsilon=1), "y": AGES["y"]}


def with_mechanism(own):
    """A survey that a mechanism blurs, with something else in it."""
    if own.joint:
        return Survey.design(SurveySpec(BETWEEN, joint={("x", "y"): own.name}))
    x = Integer(0, 8, epsilon=0.7, mechanism=own.name, per=1)
    return Survey.design({"x": x, "z": BETWEEN["z"]})


SURVEYS = {own.name: partial(with_mechanism, own) for own in every_mechanism()} | {
    "Lp(2)": lambda: Survey.design(SurveySpec(AGES, metric=Lp(2))),
    "Lp(inf)": lambda: Survey.design(SurveySpec(BETWEEN, metric=Lp(math.inf))),
    "weights": lambda: Survey.design(
        {"w": Weight(0.5, 2), "v": Weight(0, 10, private=True, epsilon=1), "x": AGES["x"]}
    ),
    "reals and bins": lambda: Survey.design(
        {
            "height": Continuous(100, 220, points=13, epsilon=1, per=10, rounding="stochastic"),
            "income": Continuous(0, 1, bins=10, epsilon=1, per=0.1),
        }
    ),
    "edges": lambda: Survey.design({"x": Continuous(edges=[0, 1, 10, 100], epsilon=1, per=1)}),
    "metrics": lambda: Survey.design(
        {
            "c": Categorical(list("abcde"), epsilon=2, metric=SensitiveSet(["b", "d"])),
            "t": Categorical(
                list("abcd"), epsilon=1, metric=Tree({"one": ["a", "b"], "two": ["c", "d"]})
            ),
        }
    ),
    "optional": lambda: Survey.design(
        {
            "x": Integer(0, 6, epsilon=1, optional=True, per=1),
            "c": Categorical(["a", "b"], epsilon=1, optional=0.5),
            "height": Continuous(
                100, 220, points=13, epsilon=1, per=10, optional=True, rounding="stochastic"
            ),
        }
    ),
    "nothing blurred": lambda: Survey.design(
        {"x": Integer(0, 5, epsilon=100, mechanism="randomized-response", per=1)}
    ),
    "many positions": lambda: Survey.design(
        {"x": Integer(0, (1 << 20) - 1, epsilon=0.001, mechanism="geometric", per=1)}
    ),
}


CLIPPED = ("geometric", "threshold", "planar-laplace", "weights", "reals and bins", "optional")


LONG = ("faces", "matrix", "prefix")
"""Whose reports take so long that there are fewer of them outside of the slow lane."""


@pytest.mark.parametrize(
    ("name", "clip", "n"),
    [
        *((name, False, 1_000 if name in LONG else 5_000) for name in SURVEYS),
        *((name, True, 5_000) for name in CLIPPED),
        *(pytest.param(name, False, 5_000, marks=pytest.mark.slow) for name in LONG),
    ],
)
def test_every_real_mechanism_passes(name, clip, n):
    found = audited(SURVEYS[name](), n=n, clip=clip)
    assert found.passed, str(found)


def test_the_other_encoder_passes():
    """Reports of a table as bytes, one by one."""
    survey = Survey.design(
        {"x": Integer(0, 8, epsilon=0.7, per=1), "c": Categorical(list("abc"), epsilon=1)}
    )

    def encoder(person):
        table = survey.randomize({name: [value] for name, value in person.items()})
        return pack(survey, table)[0]

    found = audited(survey, encoder, n=2_000)
    assert found.passed, str(found)


# Broken twins ------------------------------------------------------------------------------------

THRESHOLD = Survey.design(
    {
        "age": Integer(0, 20, epsilon=1, per=2, mechanism="threshold"),
        "income": Continuous(0, 20_000, bins=20, epsilon=1, per=2_000, mechanism="threshold"),
    }
)
GEOMETRIC = Survey.design(
    {
        "age": Integer(0, 20, epsilon=1, per=2, mechanism="geometric"),
        "income": Continuous(0, 20_000, bins=20, epsilon=1, per=2_000, mechanism="geometric"),
    }
)


@dataclasses.dataclass(frozen=True)
class Drawing:
    """An output distribution that is drawn in another way."""

    bits: int
    draw: Callable[[int, Words], int]


def twin(survey, draw=None, name="age", after=None, clip=False, sources=None):
    """A device of which one step is another."""
    device = Device(survey.client_manifest)
    if draw is not None:
        fields, at = list(device.manifest.fields), list(survey.attributes).index(name)
        other = Drawing(fields[at].bits, draw)
        fields[at] = dataclasses.replace(fields[at], distribution=other)
        device.manifest = Manifest(tuple(fields))

    def encoder(person):
        words = Words() if sources is None else next(sources)
        report = device.randomize(device.positions(person, clip=clip), words)
        return report if after is None else after(person, report)

    return encoder


def seeded(seed):
    return Words(Randomness.seeded(seed).draw)


FLIPS = Survey.design({"age": Integer(0, 7, epsilon=1, mechanism="threshold", per=1)})


def with_flips(distribution, tenths):
    """Threshold bits that are flipped with so many tenths of the probability."""
    return dataclasses.replace(
        distribution, flips=tuple(f * tenths // 10 for f in distribution.flips)
    )


def flips_too_small(survey=FLIPS):
    channel = survey.channels["age"]
    return twin(survey, with_flips(channel.distribution, 9).draw)


def flips_too_large(survey=FLIPS):
    channel = survey.channels["age"]
    return twin(survey, with_flips(channel.distribution, 11).draw)


def last_bit_bare(survey=THRESHOLD):
    channel = survey.channels["age"]
    last = channel.bits - 1

    def draw(position, words):
        return (
            channel.distribution.draw(position, words) & ~(1 << last) | (position <= last) << last
        )

    return twin(survey, draw)


class Again(Words):
    """Words with the seed to begin anew for every part of a report."""

    def __init__(self, seed):
        super().__init__(Randomness.seeded(seed).draw)
        self.seed = seed


def coins_of_attributes(survey):
    channel = survey.channels["income"]

    def draw(position, words):
        return channel.distribution.draw(position, seeded(words.seed))

    return twin(survey, draw, "income", sources=map(Again, itertools.count()))


def coins_of_people(survey, people=2):
    return twin(survey, sources=(seeded(k // people) for k in itertools.count()))


def coins_with_a_period(survey, period):
    return twin(survey, sources=(seeded(k % period) for k in itertools.count()))


def tail_rounded_to_zero(survey=GEOMETRIC):
    channel = survey.channels["age"]

    def draw(position, words):
        while abs((report := channel.distribution.draw(position, words)) - position) > 4:
            pass
        return report

    return twin(survey, draw)


def off_by_one(survey):
    channel = survey.channels["age"]
    return twin(
        survey, lambda x, words: channel.distribution.draw(min(x + 1, channel.size - 1), words)
    )


def in_the_clear(person, report):
    return report[:-1] + bytes([report[-1] | (person["age"] & 1) << 7])


def longer_for_some(person, report):
    return report + b"\0" * (person["age"] > 12)


def clip_leaks(survey):
    """Values beyond the end are sent with a little less noise than those at the end."""
    sure = GeometricChannel.for_epsilon(survey.channels["age"].size, Fraction(2))
    devices = [twin(survey, draw, clip=True) for draw in (None, sure.distribution.draw)]
    return lambda person: devices[not 0 <= person["age"] <= 20](person)


def one_value_bare(survey):
    channel = survey.channels["age"]
    return twin(survey, lambda x, words: x if x == 13 else channel.distribution.draw(x, words))


def a_memory(survey):
    kept, device = {}, Device(survey.client_manifest)

    def encoder(person):
        key = tuple(person.values())
        if key not in kept:
            kept[key] = device.report(person)
        return kept[key]

    return encoder


TWINS = {
    "flips 10 % too small": (FLIPS, flips_too_small(), {"privacy", "distribution"}),
    "flips 10 % too large": (FLIPS, flips_too_large(), {"distribution"}),
    "last bit bare": (THRESHOLD, last_bit_bare(), {"privacy", "distribution"}),
    "one value bare": (GEOMETRIC, one_value_bare(GEOMETRIC), {"privacy", "distribution"}),
    "coins of attributes": (THRESHOLD, coins_of_attributes(THRESHOLD), {"privacy", "distribution"}),
    "coins of attributes, numbers": (
        GEOMETRIC,
        coins_of_attributes(GEOMETRIC),
        {"privacy", "distribution"},
    ),
    "coins of people": (THRESHOLD, coins_of_people(THRESHOLD), {"randomness"}),
    "coins of people, numbers": (GEOMETRIC, coins_of_people(GEOMETRIC), {"randomness"}),
    "coins of people with a period": (
        GEOMETRIC,
        coins_with_a_period(GEOMETRIC, 37),
        {"randomness"},
    ),
    "constant coins": (GEOMETRIC, coins_with_a_period(GEOMETRIC, 1), {"privacy", "distribution"}),
    "the clock as a seed": (THRESHOLD, coins_of_people(THRESHOLD, 500), {"randomness"}),
    "tail rounded to zero": (GEOMETRIC, tail_rounded_to_zero(), {"privacy", "distribution"}),
    "off by one": (GEOMETRIC, off_by_one(GEOMETRIC), {"distribution"}),
    "off by one, bits": (THRESHOLD, off_by_one(THRESHOLD), {"distribution"}),
    "in the clear in padding": (
        GEOMETRIC,
        twin(GEOMETRIC, after=in_the_clear),
        {"privacy", "format"},
    ),
    "longer for some": (GEOMETRIC, twin(GEOMETRIC, after=longer_for_some), {"privacy", "format"}),
    "a memory": (GEOMETRIC, a_memory(GEOMETRIC), {"privacy", "distribution"}),
    "another survey": (
        GEOMETRIC,
        lambda person: bytes([2]) + bytes(16) + GEOMETRIC.report(person)[17:],
        {"distribution", "format"},
    ),
    "text": (GEOMETRIC, lambda person: GEOMETRIC.report(person).hex(), {"distribution", "format"}),
    "refuses valid people": (
        GEOMETRIC,
        lambda person: GEOMETRIC.report(person) if person["age"] != 7 else 1 / 0,
        {"privacy", "format"},
    ),
    "takes everything": (
        GEOMETRIC,
        lambda person: GEOMETRIC.report(person, clip=True),
        {"format"},
    ),
}


SUBTLE = {
    "flips 10 % too small": 240_000,
    "flips 10 % too large": 60_000,
    "tail rounded to zero": 80_000,
}


MANY_REPORTS = 70_000
"""Twins that need more are tried in the slow lane."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if SUBTLE.get(name, N) > MANY_REPORTS else name
        for name in TWINS
    ],
)
def test_every_broken_twin_is_caught(name):
    survey, encoder, expected = TWINS[name]
    found = audited(survey, encoder, n=SUBTLE.get(name, N))
    assert expected <= broken(found), str(found)
    if expected in ({"distribution"}, {"format"}):
        assert broken(found) == expected, str(found)


def test_clipping_that_can_be_seen_is_caught():
    assert audited(GEOMETRIC, twin(GEOMETRIC, clip=True), clip=True).passed
    found = audited(GEOMETRIC, clip_leaks(GEOMETRIC), clip=True)
    assert {"privacy", "distribution"} <= broken(found)
    assert any("beyond its end" in finding.words for finding in found.findings)


def test_left_out_values_that_can_be_seen_are_caught():
    """Who did not answer is sent with a sure hand."""
    survey = Survey.design({"age": Integer(0, 6, epsilon=1, optional=True, per=1)})
    device = Device(survey.client_manifest)

    def encoder(person):
        report = device.report(person)
        return report[:-1] + b"\3" if person["age"] is None else report

    found = audited(survey, encoder)
    assert {"privacy", "distribution"} <= broken(found)
    assert any("no response" in finding.words for finding in found.findings)


def test_people_who_differ_in_several_attributes():
    """Each attribute is within its distance, all of them together are not within theirs."""
    survey = Survey.design(
        SurveySpec(
            {f"x{k}": Integer(0, 1, epsilon=1, per=1) for k in range(4)}, metric=Lp(math.inf)
        )
    )
    alone = Survey.design({f"x{k}": Integer(0, 1, epsilon=1, per=1) for k in range(4)})
    assert audited(survey).passed
    found = audited(survey, lambda person: survey.report(person)[:17] + alone.report(person)[17:])
    privacy = [f for f in found.findings if f.verdict == "privacy"]
    assert privacy and all(f.words.count("x") > 1 for f in privacy), str(found)


def test_two_starts_with_the_same_coins():
    """Nothing is wrong with either by itself."""

    def started():
        randomness = Randomness.seeded(7)
        return lambda person: GEOMETRIC.report(person, randomness=randomness)

    assert audited(GEOMETRIC, started()).passed
    found = audited(GEOMETRIC, started(), restart=started)
    assert broken(found) == {"randomness"}


CLIENT = """
import json, random, secrets, sys
header, flip = bytes.fromhex(sys.argv[1]), int(sys.argv[2])
toss = random.Random(3).getrandbits if "seeded" in sys.argv else secrets.randbits
for line in sys.stdin:
    answer = json.loads(line).get("smokes")
    if answer not in ("no", "yes"):
        if "stops" in sys.argv:
            sys.exit("no such answer")
        print("rejected")
        continue
    bit = (answer == "no") ^ (toss(64) < flip)
    print((header + bytes([bit])).hex())
"""
ASKED = Survey.design({"smokes": Ordinal(["no", "yes"], epsilon=1, mechanism="threshold")})
"""Threshold bits: the one bit says whether the answer is at most no."""


@pytest.fixture
def client(tmp_path):
    """The command of a client that knows nothing of this package."""
    (tmp_path / "client.py").write_text(CLIENT)
    words = [sys.executable, "-I", tmp_path / "client.py", header(ASKED).hex()]
    return shlex.join(map(str, [*words, ASKED.channels["smokes"].distribution.flips[0]]))


def test_a_command_is_audited(client):
    assert audited(ASKED, Command(client)).passed
    assert audited(ASKED, Command(f"{client} stops"), n=2_000).passed
    assert broken(audited(ASKED, Command(f"{client} seeded"))) == {"randomness"}


def test_the_command_line(client, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ASKED.save("survey.toml")
    weak = client.replace(str(ASKED.channels["smokes"].distribution.flips[0]), "0")
    for command, code in ((client, 0), (weak, 1), ("no-such-command", 2)):
        words = [
            "survey.toml",
            "--client",
            command,
            "--n",
            "4000",
            "-o",
            "out",
            "--force",
            "--json",
        ]
        monkeypatch.setattr(sys, "argv", ["metricldp", "lab", "audit", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr()
        assert ended.value.code == code
        if code < 2:
            data = json.loads(told.out)
            assert data["passed"] == (code == 0) and data["client"] == command
            page = (tmp_path / "out" / "audit.txt").read_text("utf-8")
            assert ("BROKEN" in page) == (code == 1)
            names = ["audit.txt", *["audit_findings.csv"] * code, "audit_power.csv"]
            assert data["files"] == [str(Path("out") / name) for name in names]
        else:
            assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("no-such-command", "cannot run 'no-such-command'"),
        ("'", "cannot read the command"),
        ("", "name the command"),
        (f"{shlex.quote(sys.executable)} -c 'raise SystemExit(3)'", "exit code 3"),
    ],
)
def test_a_command_that_does_not_run(command, told):
    with pytest.raises(QueryError, match=told):
        audited(GEOMETRIC, Command(command), n=1_000)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("yes", "more than 2,000 lines for 1,000 people"),
        ("cat /dev/zero", "more than 0 MiB"),
        ("sleep 1000", "more than 0.5 seconds for 1,000 people; give it more with --seconds"),
        ("sh -c 'yes >&2'", "more than 0.5 seconds"),
        ("sh -c 'sleep 1000 & echo'", "more than 0.5 seconds"),
    ],
)
def test_a_command_has_limits(command, told, monkeypatch):
    monkeypatch.setattr(clients, "_ROOM", 1 << 18)
    with pytest.raises(QueryError, match=told):
        audited(GEOMETRIC, Command(command, seconds=0.5), n=1_000)


def is_running(number):
    """Whether a process is there, and not only its exit code, which nobody may have asked for."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("seconds", "told"), [("2", "more than 2 seconds"), ("1000", "metricldp: stopped")]
)
def test_a_command_ends_with_all_that_it_started(tmp_path, seconds, told):
    ASKED.save(tmp_path / "survey.toml")
    pids = tmp_path / "pids"
    (tmp_path / "client.sh").write_text(f"sleep 1000 & echo $$ $! > {pids}; wait\n")
    words = ["survey.toml", "--client", "sh client.sh", "--seconds", seconds]
    with subprocess.Popen(
        [sys.executable, "-m", "metricldp", "lab", "audit", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not (pids.exists() and pids.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if "stopped" in told:
            process.terminate()
        assert told in process.communicate(timeout=60)[1]
    assert not any(map(is_running, pids.read_text().split()))


def test_a_limit_is_a_number_of_seconds():
    for wrong in (0, -1, float("nan"), float("inf"), "10"):
        with pytest.raises(QueryError, match="seconds above 0"):
            Command("client", seconds=wrong)


def test_lines_that_are_no_bytes_are_reports_that_nobody_takes():
    reads = Command("client", "base64")._report
    assert reads("AAEC") == b"\0\1\2" and reads("rejected: too old") is None and reads("%") == b""
    with pytest.raises(QueryError, match="hex or base64, not 'words'"):
        Command("client", "words")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"n": 10}, "1,000 to"),
        ({"n": 2.5}, "not 2.5"),
        ({"false_alarm": 0}, "probability"),
        ({"encoder": 3}, "a function from a response"),
    ],
)
def test_what_cannot_be_audited_is_refused(wrong, told):
    with pytest.raises(QueryError, match=told):
        audit(GEOMETRIC, **wrong)


def test_reports_too_long_to_be_looked_at():
    survey = Survey.design({"x": Integer(0, 20_000, epsilon=0.1, mechanism="threshold", per=1)})
    with pytest.raises(QueryError, match="are too many for an audit"):
        audit(survey)


# What it says ------------------------------------------------------------------------------------


def test_a_fault_of_the_size_that_is_stated_is_found():
    """The stated power is kept: an excess that is called findable is found, each of 5 times."""
    survey = Survey.design({"x": Integer(0, 9, epsilon=0.5, mechanism="threshold", per=1)})
    (power,) = audited(survey, n=10_000, seed=1).power
    worse = ThresholdChannel.for_epsilon(10, Fraction(0.5 + power.everywhere))
    for seed in range(5):
        found = audited(survey, twin(survey, worse.distribution.draw, "x"), n=10_000, seed=seed)
        assert "privacy" in broken(found)


def test_a_fault_of_many_bits_is_found_by_all_of_them():
    """Each of 300 bits tells little of people far apart; together they tell all."""
    survey = Survey.design({"x": Integer(0, 299, epsilon=0.01, mechanism="threshold", per=1)})
    worse = ThresholdChannel.for_epsilon(300, Fraction(1, 2))
    found = audited(survey, twin(survey, worse.distribution.draw, "x"), n=4_000, seed=1)
    assert "likelihood ratios" in {finding.family for finding in found.findings}


MANY_BITS = Survey.design({"x": Integer(0, 299, epsilon=0.001, mechanism="threshold", per=1)})
"""More bits than reports of a person: weights of bits fit any noise."""


def test_scores_are_tried_on_others_than_they_were_learnt_from(monkeypatch):
    """Weights, the place to cut and the test: each from reports of its own."""
    used, tests = [], 0

    def noting(function):
        def noted(self, sample, *others):
            used.append(sample.rows)
            return function(self, sample, *others)

        return noted

    def tested(*words):
        nonlocal tests
        tests += 1
        for first, second in itertools.combinations(used, 2):
            assert not np.shares_memory(first, second)
        assert len(used) >= 2
        used.clear()
        return test_scores(*words)

    test_scores = ratios.test_scores
    monkeypatch.setattr(ratios, "test_scores", tested)
    for owner, name in ((ratios, "naive"), (ratios, "scored"), (ratios.Law, "scores")):
        monkeypatch.setattr(owner, name, noting(getattr(owner, name)))
    found = audited(MANY_BITS, n=2_000, seed=1)
    assert found.passed and tests >= 6


def test_weights_that_are_tried_where_they_were_learnt_would_find_what_is_not_there(monkeypatch):
    monkeypatch.setattr(Sample, "halves", property(lambda sample: (sample, sample)))
    found = audited(MANY_BITS, n=2_000, seed=1)
    assert "likelihood ratios" in {finding.family for finding in found.findings}


def test_counts_of_very_many_reports_are_exact():
    """Above 2^24, where 32-bit floats miss every other whole number."""
    count = (1 << 25) + 3

    class Always:
        """Of two features the first is there."""

        together = ("a", "b")
        rows = np.zeros((count, 0), dtype=np.uint8)

        def of(self, kind):
            return slice(kind)

        def matrix(self, rows):
            return np.broadcast_to(np.float32([1, 0]), (len(rows), 2))

    always = Always()
    found = ratios.pairs_of_features(always, always.rows)
    assert found.tolist() == [[0], [count], [0], [0]]
    weights = ratios.naive(always, always, (count, 0))
    assert np.allclose(weights, [math.log(2 * count + 1), -math.log(2 * count + 1)])
    assert int(np.float32(count)) != count, "so that one sum in such floats would be seen"


def test_how_many_reports_are_needed():
    """What is said to be needed for an excess finds just that."""
    family = Family("privacy", 1e-7, tests=100)
    few = Prospect(family, 0.5, 622.0, 1_000.0)
    for excess in (0.05, 0.2):
        times = few.needed(excess)
        many = Prospect(family, 0.5, 622.459 * times, 1_000.0 * times)
        assert math.isclose(many.excess(), excess, rel_tol=0.1)
    assert Prospect(family, 5.0, 1.0, 1.0).excess() == math.inf
    assert Prospect(family, 5.0, 10.0, 20.0).needed(0.5) == math.inf


def test_tests_are_exact():
    """The rate of false alarms is the one that is stated, for a few reports as well."""
    for total, chance in ((3, 0.5), (20, 0.6), (200, 0.9)):
        hits = np.arange(total + 1)
        tails = stats.binom.sf(hits - 1, total, chance)
        assert np.allclose(tail(hits, np.full(total + 1, total), chance), tails, rtol=1e-9)
        family = Family("privacy", 1e-3, tests=0)
        family.above(hits, np.full(total + 1, total), chance, str)
        assert len(family.failures) == (tails < 1e-3 / (total + 1)).sum()


def test_tails_of_draws_are_exact():
    for whole, total, size in ((20, 7, 9), (300, 290, 100), (5000, 40, 1700)):
        law = stats.hypergeom(whole, total, size)
        for hits in range(max(0, total + size - whole), min(total, size) + 1):
            beyond = law.sf(hits - 1) if hits >= law.mean() else law.cdf(hits)
            assert math.isclose(drawn_tail(hits, whole, total, size), beyond, rel_tol=1e-6)


def test_what_reports_of_another_length_hide_is_open():
    survey = TWINS["another survey"][0]
    for encoder in (repr, lambda person: survey.report(person) + repr(person).encode()):
        found = audited(survey, encoder, n=2_000)
        data = json.loads(json.dumps(found.to_dict()))
        expected = dict.fromkeys(("privacy", "distribution", "randomness"), "open") | {
            "format": "broken"
        }
        assert (
            found.verdicts
            == data["verdicts"]
            == expected | {"distribution": found.verdicts["distribution"]}
        )
        assert not found.holds("format") and not found.holds("privacy")
        assert re.search(r"\nprivacy +open ", str(found))


def test_what_an_encoder_says_is_shown_once():
    """Its exception, or its line, of the first of those that it should not have refused."""
    for encoder, said in (
        (lambda person: 1 / 0, r"ZeroDivisionError\('division by zero'\)"),
        (lambda person: {}["key"] if person["age"] == 7 else GEOMETRIC.report(person), "KeyError"),
        (Command("client"), "rejected because"),
    ):
        if isinstance(encoder, Command):
            encoder._run = lambda people: (["rejected because"] * len(people), 0, "")
        found = audited(GEOMETRIC, encoder, n=2_000)
        assert len(re.findall(said, str(found))) == 1
        (told,) = [f.words for f in found.findings if f.family == "valid responses rejected"]
        assert re.search(f"the first message was .*{said}", told) and "\n" not in told
    # Those outside may be refused in any words.
    assert "InvalidValueError" not in str(audited(GEOMETRIC, twin(GEOMETRIC), n=2_000))


@pytest.mark.parametrize("name", ["constant coins", "takes everything", "text", "a memory"])
def test_findings_that_are_alike_are_one(name):
    """For each verdict one about each attribute, the clearest, and how many are like it."""
    survey, encoder, _ = TWINS[name]
    found = audited(survey, encoder, n=5_000)
    places = len(survey.attributes) + 2  # several at once, and whole people
    for verdict in broken(found):
        assert len([f for f in found.findings if f.verdict == verdict]) <= places
    assert found.to_dict()["findings"][-1]["others"] == found.findings[-1].others
    if name == "constant coins":
        assert all(
            f.others > 10 and f"; and {f.others:,} similar tests" in str(found)
            for f in found.findings
        )
    if name == "takes everything":
        words = "invalid responses were accepted: age -1, -1000, 21, 1020"
        assert found.findings[0].words == words


def test_a_long_list_is_cut_in_the_text():
    one = Finding("distribution", "distribution pooled", "what was seen", 1e-20)
    found = dataclasses.replace(audited(FLIPS, n=1_000), findings=(one,) * 25)
    text = str(found)
    assert text.count("what was seen\n") == 20 and "\nand 5 more, in .findings" in text
    assert len(found.to_dict()["findings"]) == 25


def test_text_and_data():
    survey, encoder, _ = TWINS["another survey"]
    for found in (audited(survey, n=2_000), audited(survey, encoder, n=2_000)):
        data = json.loads(json.dumps(found.to_dict()))
        assert data["passed"] == found.passed == (not data["findings"])
        assert data["verdicts"]["privacy"] == "holds"
        assert (data["verdicts"]["format"] == "holds") == found.holds("format") == found.passed
        assert ("BROKEN" in str(found)) == (not found.passed)
        assert data["power"]


def test_the_stated_power_is_there():
    """A fault of twice the stated size is found; few reports a value make no such statement."""
    survey = Survey.design({"x": Integer(0, 59, epsilon=0.2, mechanism="threshold", per=1)})
    (stated,) = audit(survey, n=10_000, seed=1).power
    loose = Integer(0, 59, epsilon=0.2 + 2 * stated.everywhere, mechanism="threshold", per=1)
    device, mark = Device(Survey.design({"x": loose}).client_manifest), header(survey)

    def client(person):
        return mark + device.report(person)[len(mark) :]

    assert not audit(survey, client, n=10_000, seed=2).holds("privacy")
    thin = Survey.design({"x": Integer(0, 99, epsilon=0.05, mechanism="threshold", per=1)})
    (stated,) = audit(thin, n=10_000, seed=1).power
    assert stated.everywhere > 1  # the events that tell so little were overrated
