"""A little of `make fuzz` with every run of the tests, and all that it found before."""

import time

import conditions
import corpus
import manifests
import pytest
import report_bytes
import report_files
import survey_files
from fuzzing import TooLongError as TooLong
from fuzzing import Wrong, coins_for, limited, tried

from metricldp import Survey, SurveySpec
from metricldp_core import verify

BLOCKS = {report_bytes: 25, survey_files: 4, manifests: 4, report_files: 2, conditions: 6}


@pytest.mark.parametrize("target", BLOCKS, ids=lambda target: target.__name__)
def test_nothing_is_taken_and_nothing_breaks(target):
    for number in range(BLOCKS[target]):
        count, wrong = target.block(coins_for(12, target.__name__, number), f"--block {number}")
        assert count == target.AT_ONCE and not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("case", corpus.WHERES, ids=range(len(corpus.WHERES)))
def test_conditions_of_before(case):
    assert tried("where", "", case, lambda: conditions.one(case)) is None


@pytest.mark.slow
@pytest.mark.parametrize("case", corpus.SPECS, ids=range(len(corpus.SPECS)))
def test_specs_of_before(case):
    survey_files.designed()  # compiles the loops that search; no case is to blame for that

    def design():
        survey_files.one(Survey.design(SurveySpec.from_dict(case)).to_dict())

    assert tried("surveys", "", case, design) is None


# The fuzzer itself ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: (_ for _ in ()).throw(MemoryError), "2 GB"),
        (lambda: (_ for _ in ()).throw(TooLong("10 s")), "took more than 10 s"),
        (lambda: (_ for _ in ()).throw(Wrong("taken")), "Wrong: taken"),
    ],
)
def test_what_goes_wrong_is_a_failure(work, why):
    assert why in str(tried("x", "--block 1", (), work))


def test_a_case_that_takes_too_long_is_stopped():
    with pytest.raises(TooLong, match=r"^\d.* s"), limited(0.05):
        while True:
            pass
    with pytest.raises(TooLong, match="s by the clock"), limited(0.01):
        time.sleep(5)


def test_a_block_is_the_same_each_time():
    drawn = [survey_files.text(coins_for(1, "surveys", 7)) for _ in range(2)]
    assert drawn[0] == drawn[1] != survey_files.text(coins_for(1, "surveys", 8))


def test_a_decoder_that_takes_too_much_is_noticed(monkeypatch):
    """A broken twin: a collector that does not look at what stands behind the last field."""
    real = report_bytes.unpack

    def careless(survey, blobs, refused=None):
        size = report_bytes.packed_size(survey)
        tidy = [_tidied(survey, b) if type(b) is bytes and len(b) == size else b for b in blobs]
        return real(survey, tidy, refused=refused)

    monkeypatch.setattr(report_bytes, "unpack", careless)
    wrong = [report_bytes.block(coins_for(1, "reports", k), "")[1] for k in range(10)]
    assert any("read as it was written" in str(one) for found in wrong for one in found)


def _tidied(survey, blob):
    padding = 8 * (len(blob) - 17) - survey.report_bits
    return blob[:-1] + bytes([blob[-1] & 0xFF >> padding])


def test_a_proof_that_accepts_everything_is_noticed(monkeypatch):
    """A negative control."""
    (text, *_) = (text for text in manifests.real() if '"epsilon":"1"' in text)
    text = text.replace('"epsilon":"1"', '"epsilon":"1/9"')
    assert tried("manifests", "", (), lambda: manifests.one(text)) is None
    monkeypatch.setattr(verify.Certificate, "holds", True)
    assert "exceed their distance" in str(tried("manifests", "", (), lambda: manifests.one(text)))


def test_the_rules_are_those_of_the_law():
    """On tiny survey_files: what the rules allow is what somebody sends, report by report."""
    for number in range(len(report_bytes.SURVEYS)):
        survey, _ = report_bytes.survey_of(number)
        if survey.report_bits > 12 or any(a.is_public for a in survey.attributes.values()):
            continue
        start = report_bytes.header(survey)
        width = report_bytes.packed_size(survey) - len(start)
        for content in range(1 << 8 * width):
            blob = start + content.to_bytes(width, "little")
            if report_bytes.well_formed(survey, blob):
                assert report_bytes.supported(survey, blob), (number, blob.hex())
