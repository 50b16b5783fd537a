"""Totals of a stream: the answers of a tally of all reports, in memory that does not grow."""

import hashlib
import json
import pickle
import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from metricldp import Categorical, Continuous, Integer, Randomness, Survey, Tally, Weight
from metricldp.basics.errors import InvalidReportError, InvalidSpecError, QueryError
from metricldp.reports import parquet
from metricldp.reports.arrow import batches
from metricldp.reports.bytes import pack
from metricldp.store import cubes

SURVEY = Survey.design(
    {
        "age": Integer(0, 20, epsilon=1, mechanism="threshold", per=1),
        "visits": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        "region": Categorical(["north", "south", "east"], epsilon=1),
    }
)
KEEP = [("visits", "age"), ("age", "region")]
WHERES = [
    {},
    {"age": (3, 9)},
    {"age": (None, 4)},
    {"visits": (2, 5)},
    {"region": ["north", "east"]},
    {"age": (3, 9), "visits": (2, None)},
    {"age": [1, 5, 6, 20], "region": "south"},
]


def people(n, seed):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(0, 21, n),
        "visits": rng.integers(0, 10, n),
        "region": rng.choice(["north", "south", "east"], n),
    }


def tables(count, size=300):
    for seed in range(count):
        yield SURVEY.randomize(people(size, seed), randomness=Randomness.seeded(seed))


@pytest.fixture(scope="module")
def both():
    return SURVEY.tally(pa.concat_tables(tables(4))), SURVEY.tally(tables(4), keep=KEEP)


@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("target", ["respondents", "population"])
def test_counts_are_those_of_all_reports(both, where, target):
    whole, totals = (tally.count(where, target=target) for tally in both)
    assert totals.value == pytest.approx(whole.value, rel=1e-9, abs=1e-9)
    assert totals.stderr == pytest.approx(whole.stderr, rel=1e-9, abs=1e-9)
    assert (totals.question, totals.target) == (whole.question, whole.target)


def test_so_are_other_questions(both):
    whole, totals = both
    assert totals.n == whole.n == 1200
    for ask in (
        lambda t: t.mean("age", {"visits": (2, 7)}),
        lambda t: t.sum("visits"),
        lambda t: t.fraction({"region": "north"}),
        *(lambda t, k=k: t.histogram("age", {"region": "north"}).iloc[k] for k in (0, 7, 20)),
        *(lambda t, k=k: t.histogram("visits", {"age": (0, 9)}).iloc[k] for k in (0, 4, 9)),
    ):
        assert ask(totals).value == pytest.approx(ask(whole).value, rel=1e-9)
        assert ask(totals).stderr == pytest.approx(ask(whole).stderr, rel=1e-9)
    assert totals.quantile("age", 0.3).value == whole.quantile("age", 0.3).value
    many = totals.counts(WHERES)
    assert [count for _, count in many] == [totals.count(where) for where in WHERES]


def test_the_literal_channels_keep_what_they_need():
    survey = Survey.design(
        {k: Integer(0, 4, epsilon=1, mechanism="threshold-paper", per=1) for k in "ab"}
    )
    reports = survey.randomize({"a": [0, 1, 2], "b": [4, 4, 0]}, randomness=Randomness.seeded(1))
    totals = survey.tally([reports], keep=[("a",)])
    assert totals.store.keep == (("a", "b"),)
    assert totals.count({"a": (1, 3)}).value == pytest.approx(
        survey.tally(reports).count({"a": (1, 3)}).value
    )


def test_merging_and_order_change_nothing():
    parts = list(tables(4))
    whole = SURVEY.tally(parts, keep=KEEP)
    assert SURVEY.tally(reversed(parts), keep=KEEP) == whole
    assert SURVEY.tally(parts[:1], keep=KEEP) + SURVEY.tally(parts[1:], keep=KEEP) == whole
    assert sum(SURVEY.tally([part], keep=KEEP) for part in parts) == whole
    assert SURVEY.tally(parts[:3], keep=KEEP) != whole
    asked = SURVEY.tally(parts[:1], keep=KEEP)
    asked.count({"age": (3, 9)})
    for part in parts[1:]:
        asked.add(part)
    assert asked.count({"age": (3, 9)}) == whole.count({"age": (3, 9)})


def test_reports_in_any_form():
    """Tables, record batches, bytes and files, one after the other, with and without keep."""
    one, two, three = tables(3)
    blobs = pack(SURVEY, two)
    whole = SURVEY.tally(pa.concat_tables([one, two, three]))
    for given in (
        [one, *blobs, three],
        iter([*one.to_batches(), three, *blobs]),
        {"a": one, "b": two, "c": three}.values(),
    ):
        mixed = list(given)
        assert SURVEY.tally(iter(mixed), keep=KEEP) == SURVEY.tally(whole.store.table, keep=KEEP)
        assert SURVEY.tally(mixed) == whole
    refused = Counter()
    totals = SURVEY.tally([*blobs, blobs[0][:5], blobs[0]], keep=KEEP, rejected=refused)
    assert (totals.n, refused) == (301, {"length": 1})
    with pytest.raises(InvalidReportError, match="report 302 has 5 bytes"):
        SURVEY.tally([one, blobs[0], blobs[0][:5]], keep=KEEP)
    for wrong in (blobs[0], 5, {"a": one}, pa.array([1])):
        with pytest.raises(InvalidReportError, match=r"(files or bytes,|reports are) not"):
            SURVEY.tally(wrong, keep=KEEP)


def test_bytes_are_gathered_to_tables(monkeypatch):
    monkeypatch.setattr("metricldp.reports.arrow.BATCH", 64)
    (one,) = tables(1)
    blobs = pack(SURVEY, one)
    assert SURVEY.tally(iter(blobs), keep=KEEP) == SURVEY.tally(one, keep=KEEP)
    assert SURVEY.tally(iter(blobs)) == SURVEY.tally(one)
    with pytest.raises(InvalidReportError, match="report 201 has 5 bytes"):
        SURVEY.tally([*blobs[:200], blobs[0][:5], *blobs], keep=KEEP)


def test_tallies_and_totals_do_not_mix():
    (one,) = tables(1)
    whole, totals = SURVEY.tally(one), SURVEY.tally(one, keep=KEEP)
    for merge in (lambda: whole + totals, lambda: totals + whole, lambda: sum([whole, totals])):
        with pytest.raises(InvalidReportError, match="make both with keep="):
            merge()
    other_order = SURVEY.tally(one.slice(0), keep=KEEP[::-1])
    assert (totals + other_order).n == 600
    assert pickle.loads(pickle.dumps(totals)) == totals


def test_reports_come_in_all_or_none(monkeypatch):
    one, two = tables(2)
    totals = SURVEY.tally(one, keep=KEEP)
    before = totals.count({"age": (3, 9)})  # from a margin
    with pytest.raises(InvalidReportError):
        totals.add([two, b"broken"])
    assert totals.n == 300
    assert totals.count({"age": (3, 9)}) == before
    build, calls = cubes.build, iter([True, False])

    def failing(*arguments):
        if not next(calls):
            raise MemoryError
        return build(*arguments)

    monkeypatch.setattr(cubes, "build", failing)
    with pytest.raises(MemoryError):
        totals.add(two)
    monkeypatch.undo()
    assert totals == SURVEY.tally(one, keep=KEEP)
    totals.add(two)
    assert totals == SURVEY.tally([one, two], keep=KEEP)
    assert totals.count({"age": (3, 9)}) == SURVEY.tally([one, two], keep=KEEP).count(
        {"age": (3, 9)}
    )


def test_a_file_is_read_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("metricldp.reports.parquet.ROW_GROUP", 100)
    reports = pa.concat_tables(tables(4))
    SURVEY.tally(reports).save(tmp_path / "reports.parquet")
    totals = SURVEY.tally(tmp_path / "reports.parquet", keep=KEEP)
    assert totals == SURVEY.tally(reports, keep=KEEP)
    with pytest.raises(InvalidReportError, match="no reports file"):
        SURVEY.tally(tmp_path / "none.parquet", keep=KEEP)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(InvalidReportError, match="not a whole Parquet file"):
        SURVEY.tally(tmp_path / "broken.parquet", keep=KEEP)


def test_memory_does_not_grow_with_the_stream():
    """Ten times the reports, the same peak: were reports kept, it would be ten times as much."""

    def peak(count):
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        totals = SURVEY.tally(tables(count, 5000), keep=KEEP)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert totals.n == 5000 * count
        return most, pa.total_allocated_bytes() - before

    peak(1)
    (few, few_left), (many, many_left) = peak(4), peak(40)
    assert many < 1.2 * few
    assert many_left <= few_left + 1000


@pytest.mark.parametrize(
    ("keep", "needle"),
    [
        ("age", "not 'age'"),
        (["age"], "a list with 'age'"),
        ([("age", "hight")], "no attribute 'hight'"),
        ([], "keep names no attributes"),
        (5, "not 5"),
    ],
)
def test_what_cannot_be_kept(keep, needle):
    with pytest.raises(QueryError, match=needle):
        SURVEY.tally(tables(1), keep=keep)


def test_what_totals_cannot_answer(both, tmp_path):
    _, totals = both
    with pytest.raises(
        QueryError, match="so visits x region cannot be estimated; name it in keep="
    ):
        totals.count({"visits": (0, 3), "region": "north"})
    weighted = Survey.design({"a": Integer(0, 3, epsilon=1, per=1), "w": Weight(0, 1)})
    counted = weighted.tally([], keep=[("a",)])
    with pytest.raises(QueryError, match="totals keep no weights"):
        counted.sum("w")
    with pytest.raises(InvalidReportError, match=r"t\.parquet: a totals file ends in \.totals"):
        totals.save(tmp_path / "t.parquet")
    with pytest.raises(InvalidReportError, match="cannot be merged"):
        totals + SURVEY.tally(tables(1), keep=[("age",)])
    with pytest.raises(QueryError, match="w is a public weight"):
        weighted.tally([], keep=[("a", "w")])
    assert repr(totals).startswith("<Tally of totals of 1,200 reports over age x visits, age x")


def test_a_table_too_large_is_refused():
    survey = Survey.design({k: Integer(0, 9999, epsilon=1, per=1) for k in "abc"})
    with pytest.raises(QueryError, match="GB"):
        survey.tally([], keep=[("a", "b", "c")])


def test_real_values_are_answered_too():
    survey = Survey.design(
        {
            "x": Continuous(0, 10, points=11, epsilon=1, rounding="stochastic", per=1),
            "y": Integer(0, 3, epsilon=1, per=1),
        }
    )
    rng = np.random.default_rng(1)
    reports = survey.randomize(
        {"x": rng.uniform(0, 10, 500), "y": rng.integers(0, 4, 500)},
        randomness=Randomness.seeded(1),
    )
    totals, whole = survey.tally([reports], keep=[("x", "y")]), survey.tally(reports)
    assert totals.mean("x").value == pytest.approx(whole.mean("x").value)
    assert totals.count({"x": (2, 6), "y": 1}).stderr == pytest.approx(
        whole.count({"x": (2, 6), "y": 1}).stderr
    )


# The file ----------------------------------------------------------------------------------------


def written(data, path):
    """A file with these bytes and their right checksum."""
    path.write_bytes(data + hashlib.sha256(data).digest())
    return path


def test_totals_are_saved_loaded_and_merged(both, tmp_path):
    _, totals = both
    path = tmp_path / "kept.totals"
    totals.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["kept.totals"]
    for again in (SURVEY.tally(path), Tally.load(SURVEY, str(path)), SURVEY.tally(path, keep=KEEP)):
        assert again == totals
        assert again.count({"age": (3, 9)}) == totals.count({"age": (3, 9)})
        with pytest.raises(InvalidReportError, match="counted already"):
            again + totals
        assert (again + SURVEY.tally(tables(4), keep=KEEP)).n == totals.n + 4 * 300
    before = path.read_bytes()
    SURVEY.tally(path).save(path)
    assert path.read_bytes() == before
    empty = SURVEY.tally([], keep=KEEP)
    empty.save(path)
    assert SURVEY.tally(path) == empty


def test_the_bytes_of_the_file(tmp_path):
    """As the module describes them, read without it; names need not be ASCII."""
    survey = Survey.design(
        {"größe": Integer(0, 2, epsilon=1, per=1), "b": Categorical(["x", "y"], epsilon=1)}
    )
    reports = survey.randomize(
        {"größe": [0, 1, 2], "b": ["x", "y", "y"]}, randomness=Randomness.seeded(1)
    )
    tally = survey.tally(reports, keep=[("b",), ("größe", "b")])
    tally.save(tmp_path / "t.totals")
    data = (tmp_path / "t.totals").read_bytes()
    first, header, rest = data.split(b"\n", 2)
    assert first == b"metricldp-totals 1"
    shapes = [[c.moments.feature_count for c in survey.channels.values()], [2]]
    (number,) = parquet.numbered(tally.store.counted, "")
    assert header.decode("utf-8") == (
        f'{{"collections":["{number}"],"fingerprint":"{survey.fingerprint}","keep":[["größe","b"],["b"]],"n":3,'
        f'"shapes":{json.dumps(shapes).replace(" ", "")}}}'
    )
    entries = []
    for names in (["größe", "b"], ["b"]):
        channels = {name: survey.channels[name] for name in names}
        columns = reports.select([f"{name}=report" for name in names])
        entries += cubes.build(batches(columns), channels).sums.ravel().tolist()
    tables = b"".join(entry.to_bytes(8, "little", signed=True) for entry in entries)
    assert rest == tables + hashlib.sha256(data[:-32]).digest()


def test_files_that_are_no_totals_of_this_survey(both, tmp_path):
    """Each with a reason word; whatever byte is changed, cut or added, nothing is read."""
    _, totals = both
    totals.save(tmp_path / "good.totals")
    data = (tmp_path / "good.totals").read_bytes()
    first, header, rest = data[:-32].split(b"\n", 2)
    other = Survey.design({"a": Integer(0, 3, epsilon=1, per=1)})
    other.tally([], keep=[("a",)]).save(tmp_path / "other.totals")

    def says(reason, needle, path):
        with pytest.raises(InvalidReportError, match=needle) as told:
            SURVEY.tally(path)
        assert told.value.reason == reason
        assert "\n" not in str(told.value)

    says("file", "there is no totals file", tmp_path / "none.totals")
    says("survey", "belong to another survey", tmp_path / "other.totals")
    bad = tmp_path / "bad.totals"
    bad.write_bytes(b"PAR1")
    says("file", "is not a file of totals", bad)
    says("version", "have version 2, this is 1", written(data[:-32].replace(b" 1\n", b" 2\n"), bad))
    says("length", "bytes of tables, but its header states another", written(data[:-40], bad))
    says(
        "length",
        "bytes of tables, but its header states another",
        written(data[:-32] + bytes(8), bad),
    )
    rng = np.random.default_rng(1)
    for at in [*range(19, 60), *rng.integers(19, len(data), 40).tolist()]:
        bad.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        says("checksum", "its checksum is wrong", bad)
        bad.write_bytes(data[:at])
        says("checksum", "its checksum is wrong", bad)

    def headed(text):
        return written(b"\n".join([first, text, rest]), bad)

    told = json.loads(header)
    for wrong in (
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 5000,
        header + b" ",
        header.replace(b",", b", "),
        header.replace(b'"n":1200', b'"n":-1'),
        header.replace(b'"n":1200', b'"n":99999999999999999999'),
        header.replace(b'"age"', b'"\\ud800"'),
        header.replace(b'"n":1200', b'"n":1200.0'),
        header.replace(b'"n":1200', b'"n":true'),
        header.replace(b'"age"', b"5"),
        header.replace(b'"n":1200', b'"more":1,"n":1200'),
        header.replace(b'"n":1200', b'"n":1200,"n":1200'),
    ):
        says("header", "is invalid", headed(wrong))

    def changed(**entries):
        text = json.dumps({**told, **entries}, sort_keys=True, separators=(",", ":"))
        return headed(text.encode())

    says(
        "shapes",
        r"has shape \(10, 21\), not \(21, 10\)",
        changed(shapes=[told["shapes"][0][::-1], told["shapes"][1]]),
    )
    says("shapes", "over 'age x hight'", changed(keep=[["age", "hight"], told["keep"][1]]))
    for name in ("new\nline", "x" * 100_000):
        long = changed(keep=[["age", name], told["keep"][1]])
        with pytest.raises(InvalidReportError) as why:
            SURVEY.tally(long)
        assert "\n" not in str(why.value) and len(str(why.value)) < 300 + len(str(long))
    says("survey", r"another survey \('a\\nb'", changed(fingerprint="a\nb"))
    many = changed(keep=[["age"] * 65], shapes=[[1] * 65])
    says("header", "is invalid", many)
    swapped = {key: told[key][::-1] for key in ("keep", "shapes")}
    says("keep", "keeps sets of attributes that no survey would", changed(**swapped))
    with pytest.raises(InvalidReportError, match="cannot be merged"):
        SURVEY.tally(tmp_path / "good.totals", keep=[("age",)])
    with pytest.raises(InvalidSpecError, match="leave layout='prefix' out"):
        SURVEY.tally(tmp_path / "good.totals", layout="prefix")


def test_sums_that_n_reports_cannot_have_are_refused(both, tmp_path):
    _, totals = both
    totals.save(tmp_path / "good.totals")
    first, header, rest = (tmp_path / "good.totals").read_bytes()[:-32].split(b"\n", 2)
    entries = np.frombuffer(rest, "<i8")
    size = totals.store._tables["age", "visits"].sums.size

    def refused(changed, n=1200):
        told = header.replace(b'"n":1200', b'"n":%d' % n)
        path = written(b"\n".join([first, told, changed.tobytes()]), tmp_path / "bad.totals")
        with pytest.raises(
            InvalidReportError, match=r"not a sum over the file's|outgrow 64 bits"
        ) as why:
            SURVEY.tally(path)
        assert why.value.reason == "sums"
        assert "\n" not in str(why.value)

    refused(entries, n=7)
    refused(entries, n=0)
    refused(entries, n=1199)
    refused(entries, n=2**53 - 1)
    refused(-entries)
    refused(np.full_like(entries, 2**62))
    refused(np.full_like(entries, -(2**63)))
    large = entries.copy()
    large[size - 1] += 1201 * 2
    refused(large)
    apart = entries.copy()  # ages 0 and 1 of the second table swapped: each is right by itself
    apart[size + 3 : size + 9] = np.roll(apart[size + 3 : size + 9], 3)
    refused(apart)


def test_fewer_than_nobody_are_refused(tmp_path):
    """Counts of single values, one of them negative, that still add up to all reports."""
    survey = Survey.design({"a": Integer(0, 4, epsilon=1, mechanism="geometric", per=1)})
    survey.tally(survey.randomize({"a": [2] * 50}), keep=[("a",)]).save(tmp_path / "good.totals")
    head, rest = (tmp_path / "good.totals").read_bytes()[:-32].rsplit(b"}\n", 1)
    entries = np.frombuffer(rest, "<i8")
    for counts, possible in (([10, 20, 20, 0, 0], True), ([10, 20, 21, -1, 0], False)):
        assert sum(counts) == entries.sum() == 50
        blob = head + b"}\n" + np.array(counts, dtype="<i8").tobytes()
        path = written(blob, tmp_path / "changed.totals")
        if possible:
            assert survey.tally(path).n == 50
            continue
        with pytest.raises(InvalidReportError, match="not a sum over the file's") as why:
            survey.tally(path)
        assert why.value.reason == "sums"


def test_literal_channels_and_nobody_are_saved_too(tmp_path):
    survey = Survey.design(
        {k: Integer(0, 4, epsilon=1, mechanism="threshold-paper", per=1) for k in "ab"}
    )
    reports = survey.randomize({"a": [0, 1, 2], "b": [4, 4, 0]}, randomness=Randomness.seeded(1))
    for given in ([reports], []):
        totals = survey.tally(given, keep=[("a",)])
        totals.save(tmp_path / "t.totals")
        assert survey.tally(tmp_path / "t.totals") == totals


def test_merging_never_outgrows_64_bits():
    survey = Survey.design({"a": Integer(0, 3, epsilon=1, mechanism="randomized-response", per=1)})
    one = survey.tally([], keep=[("a",)])
    one.store._n = 1 << 62
    with pytest.raises(
        InvalidReportError, match=r"sums over a of .* reports could outgrow 64 bits"
    ) as no:
        one + one
    assert no.value.reason == "sums"


def test_a_file_that_cannot_be_written(both, tmp_path):
    whole, totals = both
    with pytest.raises(InvalidReportError, match=r"cannot write .*there is no directory"):
        totals.save(tmp_path / "nowhere" / "t.totals")
    (tmp_path / "taken.totals").mkdir()
    with pytest.raises(InvalidReportError, match=r"cannot write .*it is a directory"):
        totals.save(tmp_path / "taken.totals")
    assert [file.name for file in tmp_path.iterdir()] == ["taken.totals"]
    with pytest.raises(InvalidReportError, match=r"a reports file ends in \.parquet or \.pq"):
        whole.save(tmp_path / "t.totals")


def test_reports_are_added_to_reports():
    one, two = tables(2)
    tally = SURVEY.tally(one, layout="prefix")
    tally.count({"age": (3, 9)})
    tally.add(two)
    assert tally == SURVEY.tally([one, two])
    assert tally.count({"age": (3, 9)}) == SURVEY.tally([one, two], layout="prefix").count(
        {"age": (3, 9)}
    )
    with pytest.raises(InvalidReportError):
        tally.add([one, b"broken"])
    assert tally.n == 600
    for more in (tally, SURVEY.tally([], keep=[("age",)])):
        rejected = Counter()
        before = more.n
        more.add([pack(SURVEY, two)[0], b"broken"], rejected=rejected)
        assert more.n == before + 1 and rejected == {"version": 1}


def test_private_weights_are_totals_like_others():
    survey = Survey.design(
        {"a": Integer(0, 9, epsilon=1, per=1), "w": Weight(0, 4, private=True, epsilon=2)}
    )
    rng = np.random.default_rng(2)
    people = {"a": rng.integers(0, 10, 500), "w": rng.uniform(0, 4, 500)}
    reports = survey.randomize(people, randomness=Randomness.seeded(2))
    whole, totals = survey.tally(reports), survey.tally(reports, keep=[("a", "w")])
    for where in (None, {"a": (2, 6)}):
        for target in ("respondents", "population"):
            one, other = (tally.sum("w", where, target=target) for tally in (whole, totals))
            assert one.value == pytest.approx(other.value, rel=1e-9)
            assert one.stderr == pytest.approx(other.stderr, rel=1e-9)
