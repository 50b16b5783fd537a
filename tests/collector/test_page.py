"""The page and the HTTP queries: estimates, errors, access, limits, and hostile input."""

import asyncio
import csv
import io
import json
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import numpy as np
import pytest
from collected import NASTY, TOKEN, Client, InMemory, Slow, nasty_tally, people, survey, tally
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metricldp import Categorical, Continuous, Integer, Ordinal, Randomness, Survey
from metricldp.answers.tally import Tally
from metricldp.collector.base import Status
from metricldp.collector.database import StoreError
from metricldp.collector.page import app, cost, pages, survey_page
from metricldp.collector.page.form import FIELDS, SHOWS
from metricldp.collector.page.query import OPTIONS, QUERIES
from metricldp.collector.page.view import csv_cell
from metricldp.estimate.request import KINDS, parameters, run
from metricldp_core.guarantee import sentences

BEARER = {"authorization": f"Bearer {TOKEN}"}
HERE = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def collected():
    return InMemory(tally(), nasty_tally())


@pytest.fixture(scope="module")
def client(collected):
    return Client(pages(collected), base_url=HERE, headers=BEARER)


@pytest.fixture
def stranger(collected):
    return Client(pages(collected), base_url=HERE)


@pytest.fixture(scope="module")
def address(collected):
    return f"/v1/surveys/{collected.surveys()[0].fingerprint}/query"


@pytest.fixture(scope="module")
def page(collected):
    return f"/surveys/{collected.surveys()[0].fingerprint}"


# Estimates

REQUESTS = [
    ("count", {"where": "18 <= age <= 29 and region == 'north'"}),
    ("count", {"by": ["region", "age=0,25,50,75,100"]}),
    ("fraction", {"where": "income < 50000", "target": "population"}),
    ("fraction", {"where": "age < 30", "among": "region == 'north'", "confidence_level": "0.9"}),
    ("sum", {"attribute": "age", "by": "region", "simultaneous": "true"}),
    ("mean", {"attribute": "age", "where": "region in ['north', 'south']"}),
    ("mean", {"attribute": "age", "by": "income=0,50000,200000"}),
    ("variance", {"attribute": "age"}),
    ("std", {"attribute": "age", "by": "region"}),
    ("quantile", {"attribute": "age", "q": "25%", "where": "region != 'west'"}),
    ("histogram", {"attribute": "region"}),
    ("histogram", {"attribute": "age", "bins": "0,25,50,100", "confidence_level": "99%"}),
    ("cdf", {"attribute": "age", "where": "income > 20000"}),
    ("top-k", {"attribute": "region", "k": "2"}),
    ("workload", {"attribute": "age", "matrix": "10 bars"}),
    ("covariance", {"x": "age", "y": "income"}),
    ("correlation", {"x": "age", "y": "income"}),
    ("regression", {"y": "age", "x": ["region"], "base": "region=south"}),
    ("independence", {"x": "region", "y": "age", "widths": "age=50"}),
    ("trend", {"event": "region == 'north'", "attribute": "age"}),
    ("goodness-of-fit", {}),
]


@pytest.mark.parametrize(("kind", "texts"), REQUESTS)
def test_http_gives_the_data_of_the_same_python_query(client, collected, address, kind, texts):
    request = KINDS[kind].from_text(texts)
    result = run(collected.tally(collected.surveys()[0]), request)
    how = {"simultaneous": True} if texts.get("simultaneous") else {}
    levels = [request.confidence_level] if "confidence_level" in parameters(KINDS[kind]) else []
    answer = client.get(f"{address}/{kind}", params=texts)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert_close(answer.json(), json.loads(json.dumps(result.to_dict(*levels, **how))))


def assert_close(here, there):
    """The same up to rounding: the page reads reports where Python may read a table."""
    if isinstance(there, dict):
        assert here.keys() == there.keys()
        for key in there:
            assert_close(here[key], there[key])
    elif isinstance(there, list):
        for one, other in zip(here, there, strict=True):
            assert_close(one, other)
    elif isinstance(there, float):
        assert here == pytest.approx(there, rel=1e-6, abs=1e-6)
    else:
        assert here == there


def test_every_query_but_contributions_is_tested_over_http():
    assert {kind for kind, _ in REQUESTS} == {*QUERIES} == {*KINDS} - {"contributions"}


def test_baseline_gives_differences_of_the_table(client, collected, address):
    texts = {"attribute": "age", "by": "region"}
    table = collected.tally(collected.surveys()[0]).mean("age", by="region")
    data = client.get(f"{address}/mean", params={**texts, "baseline": "west"}).json()
    assert_close(data, table.differences("west").to_dict())
    bands = {"by": "age=0,18,65,100", "baseline": "18 to 64"}
    rows = client.get(f"{address}/count", params=bands).json()["rows"]
    assert [(row["age_low"], row["age_high"]) for row in rows] == [(0, 18), (65, 100)]


def test_poisoning_bounds_and_confidence_sequences_are_columns(client, address):
    plain = client.get(f"{address}/count?where=region=='north'").json()
    data = client.get(f"{address}/count?where=region=='north'&malicious=7&anytime=true").json()
    (before,), (row,) = plain["rows"], data["rows"]
    assert data["anytime"] and data["malicious"] == 7
    assert row["ci_low"] < before["ci_low"] and row["ci_high"] > before["ci_high"]
    assert row["poisoning_low"] < row["estimate"] < row["poisoning_high"]
    bins = client.get(f"{address}/histogram?attribute=region&malicious=7").json()["rows"]
    assert bins[0]["poisoning_low"] == pytest.approx(row["poisoning_low"])
    for query in ("cdf?attribute=age", "mean?by=region&attribute=age", "quantile?attribute=age"):
        rows = client.get(f"{address}/{query}&malicious=7").json()["rows"]
        assert all(row["poisoning_low"] <= row["poisoning_high"] for row in rows)


def test_interval_over_http_covers_the_respondents(client, address):
    truth = people(20_000)
    inside = ((truth["age"] >= 18) & (truth["age"] <= 29)).sum()
    query = f"{address}/count?where=18 <= age <= 29&confidence_level=0.999999"
    (row,) = client.get(query).json()["rows"]
    assert row["ci_low"] <= inside <= row["ci_high"]


# The page


@pytest.mark.parametrize("show", SHOWS)
def test_links_lead_to_the_estimates_as_files(client, page, show):
    where = "region == 'north'" if show == "heatmap" else "income < 100000"
    text = client.get(page, params={"show": show, "where": where}).text
    links = {one.partition("?")[0].rpartition(".")[2]: one for one in Links(text).links}
    kinds = {"csv", "json"} if show == "count" else {"csv", "json", "svg"}
    assert kinds <= links.keys() and (show != "count" or "svg" not in links)
    for kind in kinds:
        answer = client.get(links[kind])
        assert answer.status_code == 200, answer.text
        if kind == "svg":
            drawing = ET.fromstring(answer.text)
            assert not [one for one in drawing.iter() if "style" in one.tag or "script" in one.tag]
            assert not [one for one in drawing.iter() if "style" in one.attrib]
        elif kind == "csv":
            rows = list(csv.reader(io.StringIO(answer.text)))
            assert len({len(row) for row in rows}) == 1 and len(rows) > (
                1 if show == "count" else 3
            )
            assert {"estimate", "std_error", "ci_low", "ci_high", "n"} <= {*rows[0]}
        attachment = answer.headers.get("content-disposition", "")
        assert ("attachment" in attachment) == (kind != "json")


def test_only_known_formats_are_answered(client, address):
    assert client.get(f"{address}/histogram.png?attribute=age").status_code == 404
    assert client.get(f"{address.removesuffix('/query')}/count").status_code == 404


def test_link_of_the_page_describes_the_query(client, page):
    pairs = [("show", "histogram"), ("attribute", "age"), ("where", "region == 'north'")]
    pairs += [("confidence_level", "0.9")]
    asked = client.get(page, params=[*pairs, ("bins", ""), ("malicious", "0")]).text
    (link,) = [one for one in Links(asked).links if one.startswith(f"{page}?")]
    assert parse_qsl(urlsplit(link).query) == pairs
    assert answer_of(client.get(link).text) == answer_of(asked)
    assert "Respondents by age among region north" in asked
    assert "90% confidence interval" in asked


def test_page_shows_the_estimates_of_python(client, collected, page):
    made = collected.tally(collected.surveys()[0])
    text = Links(client.get(page, params={"show": "groups", "by": "region"}).text).text
    table = made.mean("age", by="region")
    for part in (table, table.differences("north")):
        for line in str(part).splitlines()[2:]:
            assert all(word.strip() in text for word in line.split("  "))
    text = Links(client.get(page, params={"show": "count", "where": "age < 30"}).text).text
    assert str(made.count("age < 30")).partition(" (")[2] in text
    text = Links(client.get(page, params={"show": "distribution", "attribute": "age"}).text).text
    assert all(str(made.quantile("age", q).value) in text for q in (0.1, 0.5, 0.9))


@pytest.fixture(scope="module")
def small():
    """Few respondents, one region without any, an ordinal and a cyclic attribute."""
    asked = Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, within=10),
            "region": Categorical(["north", "south", "abroad"], epsilon=3),
            "health": Ordinal(["poor", "good", "very good"], epsilon=2, within=1),
            "hour": Integer(0, 23, epsilon=1, within=2, cyclic=True),
            "income": Continuous(0, 100, bins=10, epsilon=1, within=20, optional=True),
        }
    )
    rng, n = np.random.default_rng(1), 1_000
    data = {
        "age": rng.integers(20, 60, n),
        "region": rng.choice(["north", "south"], n),
        "health": rng.choice(["poor", "good"], n),
        "hour": rng.integers(18, 24, n),
        "income": [None if k % 5 == 0 else 40.0 for k in range(n)],
    }
    return asked.tally(asked.randomize(data, randomness=Randomness.seeded(1)))


@pytest.fixture(scope="module")
def small_client(small):
    return Client(pages(InMemory(small)), base_url=HERE, headers=BEARER)


def marks(text, kind):
    """The elements of a class in a drawing."""
    groups = ET.fromstring(text).iter("{http://www.w3.org/2000/svg}g")
    return [mark for group in groups if group.get("class") == kind for mark in group]


@pytest.mark.parametrize(
    ("query", "dots", "intervals"),
    [
        ("histogram.svg?attribute=region", 2, 3),
        ("mean.svg?attribute=age&by=region", 2, 3),
        ("mean.svg?attribute=age&by=region&baseline=north", 3, 5),
        ("quantile.svg?attribute=age&by=region", 2, 3),
    ],
)
def test_groups_that_may_be_empty_have_no_bar(small_client, small, query, dots, intervals):
    text = small_client.get(f"/v1/surveys/{small.survey.fingerprint}/query/{query}").text
    assert len(marks(text, "bar")) == 2
    assert len(marks(text, "dot")) == dots
    assert len([mark for mark in marks(text, "whisker") if "H" in mark.get("d")]) == intervals


def test_page_names_groups_that_may_be_empty(small_client, small):
    address = f"/surveys/{small.survey.fingerprint}"
    note = "These groups are not distinguishable from empty: abroad."
    for show in ("attribute=region", "show=groups&by=region&estimate=age"):
        text = Links(small_client.get(f"{address}?{show}").text).text
        assert note in text
    assert "cannot be estimated" in text
    pairs = {"attribute": "health", "where": "region == 'north'", "bins": ""}
    text = Links(small_client.get(address, params=pairs).text).text
    assert "not distinguishable from empty: very good." in text


@pytest.mark.parametrize("show", SHOWS)
@pytest.mark.parametrize("attribute", ["age", "region", "health", "hour", "income"])
@pytest.mark.parametrize("more", [{}, {"anytime": "true", "malicious": "3"}])
def test_page_shows_every_kind_of_attribute(small_client, small, show, attribute, more):
    asked = {"show": show, "attribute": attribute, **more}
    answer = small_client.get(f"/surveys/{small.survey.fingerprint}", params=asked)
    has_order = attribute not in ("region", "hour")
    assert answer.status_code == (200 if show != "distribution" or has_order else 400)
    assert "<svg" in answer_of(answer.text) or show == "count" or not has_order


@pytest.mark.parametrize(
    ("estimate", "title"),
    [
        ("respondents", "Respondents by region"),
        ("income", "Mean income by region"),
        ("age < 30", "Fraction of age up to 29 by region"),
    ],
)
def test_groups_are_compared_by_counts_means_and_fractions(small_client, small, estimate, title):
    pairs = {"show": "groups", "by": "region", "estimate": estimate, "baseline": "south"}
    answer = small_client.get(f"/surveys/{small.survey.fingerprint}", params=pairs)
    assert f"{title}<" in answer.text and "Differences from south" in answer.text
    pairs["where"] = "hour >= 18"
    text = Links(small_client.get(f"/surveys/{small.survey.fingerprint}", params=pairs).text).text
    assert f"{title} among hour 18 and up" in text and "Fraction of all respondents" in text


def test_page_before_the_first_report():
    empty = survey()
    client = Client(pages(InMemory(empty.tally([]))), base_url=HERE, headers=BEARER)
    answer = client.get(f"/surveys/{empty.fingerprint}")
    assert answer.status_code in (200, 400) and "There are no reports yet" in answer.text
    for query in ("count", "fraction?where=age<3", "mean?attribute=age", "cdf?attribute=age"):
        address = f"/v1/surveys/{empty.fingerprint}/query/{query}"
        assert client.get(address).status_code in (200, 400)


def test_page_shows_reports_over_time_and_outcomes():
    hours = tuple((490_000 + 5 * k, 2) for k in range(40))
    status = Status(80, 7, hours, {"accepted": 80, "range": 3, "late": 0}, True, ())
    made = tally(80)
    code, text = survey_page.survey_page(made, status, [])
    assert code == 200 and "Accepted reports by day (UTC)" in text
    assert "7 more wait for their batch" in text and "closed" in text
    assert "rejected: the report has a value that no device could send" in text
    assert "replay window" not in text
    _, text = survey_page.survey_page(made, replace(status, per_hour=hours[:3]), [])
    assert "Accepted reports by hour (UTC)" in text


def test_page_explains_the_guarantee(client, collected, page):
    """The sentences are those of the core; the titles describe attributes and mechanisms."""
    text = Links(client.get(page).text).text
    survey = collected.surveys()[0]
    for section in survey.explain().sections:
        assert section.title in text
    lines = sentences(survey.client_manifest)
    assert len(lines) == 4
    for line in lines:
        assert line.partition(": ")[2] in text
    assert lines[-1] in text


def test_text_of_the_page_uses_standard_terms(client, page, small_client, small):
    """No word of the old vocabulary outside of attribute names."""
    old = "promise lying liar liars ask asked said told blur blurred people said watch watching "
    shown = [client.get(page, params={"show": show}).text for show in SHOWS]
    shown.append(small_client.get(f"/surveys/{small.survey.fingerprint}?anytime=true").text)
    words = {word.strip(".,:;()").lower() for text in shown for word in Links(text).text.split()}
    assert not words & {*old.split()} - {"people"}


# Errors


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("count?where=age == 18.5.3", "age"),
        ("count?where=agee == 3", "did you mean 'age'"),
        ("count?where=region == 'nort'", "did you mean 'north'"),
        ("count?confidence_level=2", "confidence_level is a number between 0 and 1"),
        ("count?confidence_level=abc", "confidence_level: 'abc' is not a number"),
        ("count?target=martians", "target is respondents or population"),
        ("count?malicious=-1", "malicious is a number of clients"),
        ("count?malicious=1000000", "at most the number of reports"),
        ("count?foo=1", "there is no parameter 'foo'"),
        ("count?wher=age<3", "did you mean 'where'"),
        ("count?attribute=age", "there is no parameter 'attribute'"),
        ("count?confidence_level=0.9&confidence_level=0.8", "given twice"),
        ("count?where=age<3&where=age<5", "where is given twice"),
        ("median?attribute=age", "there is no query 'median'"),
        ("contributions", "there is no query 'contributions'"),
        ("histogram", "needs attribute"),
        ("histogram?attribute=agee", "did you mean 'age'"),
        ("histogram?attribute=age&where=age < 3", "remove it from where"),
        ("histogram?attribute=age&bins=-4", "bins"),
        ("mean?attribute=region", "region"),
        ("quantile?attribute=age&q=7", "q is a number between 0 and 1"),
        ("mean?attribute=age&by=region&baseline=nowhere", "there is no group 'nowhere'"),
        ("mean?attribute=age&by=age", "group by another one"),
        ("mean?attribute=age&by=region&where=region=='north'", "remove it from the condition"),
        ("count?by=age&by=age", "twice"),
        ("count.svg", "has no chart"),
        ("mean?attribute=age&by=region&baseline=west&malicious=3", "leave malicious out"),
        ("goodness-of-fit.csv", "not a table"),
        ("workload?attribute=age", "at most"),
        ("count?anytime=perhaps", "write true or false"),
    ],
)
def test_error_names_the_parameter_and_what_is_allowed(client, address, query, text):
    answer = client.get(f"{address}/{query}")
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    data = answer.json()
    assert data["type"] == "urn:metricldp:problem:question" and data["status"] == 400
    assert text in data.get("detail", data["title"]) and "\n" not in data["title"]


def test_error_in_a_condition_shows_its_position(client, address, page):
    where = "age < 30 and agee == 3"
    detail = client.get(f"{address}/count", params={"where": where}).json()["detail"]
    _, line, caret = detail.splitlines()
    assert line.strip() == where and caret.index("^") - line.index(where) == where.index("agee")
    answer = client.get(page, params={"attribute": "age", "where": where})
    assert answer.status_code == 400
    shown = Links(answer.text).text
    assert "did you mean 'age'?" in shown and "\n".join([line, caret]) in shown
    assert f'value="{where.replace("<", "&lt;")}"' in answer.text
    assert client.get(f"{page}?show=nothing").status_code == 400


@pytest.mark.parametrize(
    "pairs",
    [
        [("where", f"age == {'1' * 4000}")],
        [("by", "region" + "x" * 3000)] * 3,
        [("malicious", "9" * 900)],
        [("confidence_level", "0." + "9" * 900)],
        [("bins", "1e-300")],
        [("bins", "1e400")],
        [("bins", "1" * 900)],
        [("where", "(" * 500 + "age < 3" + ")" * 500)],
        [("where", "not " * 900 + "age < 3")],
    ],
)
def test_too_long_or_large_parameters_are_rejected(client, address, pairs):
    kind = "count" if pairs[0][0] == "by" else "histogram"
    more = [] if kind == "count" else [("attribute", "region")]
    answer = client.get(f"{address}/{kind}", params=[*more, *pairs])
    assert answer.status_code == 400, answer.text
    assert len(answer.text) < 1500


KEYS = st.sampled_from([*FIELDS, *OPTIONS, "q", "k", "among", "simultaneous", "x"])
WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["age", "income", "region", "heatmap", "groups", "count", "0.5", "1", "30"]),
    st.sampled_from(["0 < age < 5", "region == 'north'", "age>=3", "income is None", "true"]),
    st.sampled_from(["0,18,30", "age=0,50,100", "north", "distribution", "population"]),
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([*QUERIES]), st.lists(st.tuples(KEYS, WORDS), max_size=5))
def test_any_parameters_give_an_answer_or_an_error(client, page, address, kind, pairs):
    assert client.get(page, params=pairs).status_code in (200, 400)
    answer = client.get(f"{address}/{kind}", params=pairs)
    assert answer.status_code in (200, 400)
    assert "Traceback" not in answer.text


# Costs


def test_slow_query_is_rejected(client, address, monkeypatch):
    monkeypatch.setattr(cost, "MOST_SECONDS", 1e-4)
    answer = client.get(f"{address}/count?by=age&by=region")
    assert answer.status_code == 400 and "more than the" in answer.json()["title"]


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        ("histogram?attribute=a", "at most 512"),
        ("count?by=a", "at most 2,500"),
        ("cdf?attribute=a", "use a histogram"),
        ("top-k?attribute=a", "at most 512"),
        ("mean?attribute=b&by=a=" + ",".join(map(str, range(0, 4001, 20))), "at most 100"),
        ("regression?y=b&x=c", "seconds"),
    ],
)
def test_large_tables_are_rejected_with_a_remedy(query, limit):
    wide = Survey.design(
        {
            "a": Integer(0, 4000, epsilon=1, per=100, mechanism="geometric"),
            "b": Integer(0, 9, epsilon=1, per=5, mechanism="geometric"),
            "c": Categorical([f"c{k}" for k in range(600)], epsilon=3),
        }
    )
    n = 400
    data = {"a": range(0, 10 * n, 10), "b": [1] * n, "c": ["c1"] * n}
    client = Client(
        pages(InMemory(wide.tally(wide.randomize(data)))), base_url=HERE, headers=BEARER
    )
    answer = client.get(f"/v1/surveys/{wide.fingerprint}/query/{query}")
    assert answer.status_code == 400 and limit in answer.json()["title"]
    assert client.get(f"/surveys/{wide.fingerprint}").status_code == 200


def test_queries_of_the_page_keep_no_tables(collected, monkeypatch):
    """A table built for one query would stay in the memory of the server."""
    built = []
    monkeypatch.setattr(Tally, "_table", lambda *given: built.append(given) or 1 / 0)
    site = app.Site(collected)
    made = site._tally(collected.surveys()[0])
    for k in range(50):
        made.count({"age": k, "region": "north"})
    assert not built and not made.store._tables
    assert site._tally(collected.surveys()[0]) is not made


# Access


def test_without_a_token_there_is_nothing(stranger, address, page):
    answer = stranger.get(f"{address}/count")
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert stranger.get(f"{address}/count?token={TOKEN}").status_code == 401
    wrong = {"authorization": "Bearer nonsense"}
    assert stranger.get(f"{address}/count", headers=wrong).status_code == 401
    shown = stranger.get(page)
    assert shown.status_code == 401 and "income" not in shown.text
    assert stranger.get("/surveys").status_code == 401
    basic = {"authorization": f"Basic {TOKEN}"}
    assert stranger.get(f"{address}/count", headers=basic).status_code == 401


def test_logging_in_and_out(stranger, page):
    asked = f"{page}?show=histogram&attribute=age"
    answer = stranger.post("/surveys/login", data={"token": TOKEN, "next": asked})
    assert answer.status_code == 303 and answer.headers["location"] == asked
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "; secure" not in cookie
    assert TOKEN not in answer.headers["location"]
    assert stranger.get(asked).status_code == 200
    assert "age, income and region" in stranger.get("/surveys").text
    assert stranger.post("/surveys/logout").status_code == 303
    assert stranger.get(asked).status_code == 401


def test_cookie_is_secure_except_on_one_machine(collected, page):
    there = Client(pages(collected), base_url="https://example.org")
    cookie = there.post("/surveys/login", data={"token": TOKEN}).headers["set-cookie"]
    assert cookie.startswith("__Host-metricldp=") and "; Secure" in cookie
    assert "Path=/" in cookie and "Domain" not in cookie
    assert there.get(page).status_code == 200
    proxied = Client(pages(collected), base_url=HERE, headers={"x-forwarded-proto": "https"})
    answer = proxied.post("/surveys/login", data={"token": TOKEN})
    assert "; Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example/surveys",
        "/surveys/../../x",
        "/surveys\\evil",
        "/surveys/%0d%0aset-cookie:a",
        "/surveys?a\r\nset-cookie: b=c",
        "javascript:alert(1)",
    ],
)
def test_logging_in_leads_to_no_other_site(stranger, target):
    answer = stranger.post("/surveys/login", data={"token": TOKEN, "next": target})
    assert answer.status_code == 303 and answer.headers["location"] == "/surveys"
    assert len(answer.headers.get_list("set-cookie")) == 1


@pytest.mark.parametrize("token", ["", "wrong", "x" * 600, "ü", "a\x00b"])
def test_wrong_token_sets_no_cookie(stranger, token):
    answer = stranger.post("/surveys/login", data={"token": token})
    assert answer.status_code == 401 and "set-cookie" not in answer.headers
    assert len(token) < 9 or token not in answer.text


def test_forms_of_other_sites_and_large_forms_are_rejected(stranger):
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        answer = stranger.post("/surveys/login", data={"token": TOKEN}, headers=headers)
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
        assert stranger.post("/surveys/logout", headers=headers).status_code == 403
    large = f"token={TOKEN}&next=" + "a" * 100_000
    assert stranger.post("/surveys/login", content=large).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/surveys/..%2f..%2fetc%2fpasswd",
        "/surveys/%2e%2e/%2e%2e/etc/passwd",
        "/surveys/page.css/../../x",
        "/surveys/templates",
        "/surveys/frame.html",
        "/v1/surveys/../../etc/passwd",
        "/v1/surveys/%00/query/count",
        "/nothing",
    ],
)
def test_paths_outside_of_the_site_are_not_found(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 401) and "root:" not in answer.text


@pytest.mark.parametrize(
    "path", ["/surveys", "/surveys/page.css", "/nothing", "/v1/surveys/x/query/y"]
)
def test_every_response_has_security_headers(client, path):
    answer = client.get(path)
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_estimates_are_not_cached(client, page, address):
    for path in (page, f"{address}/count"):
        assert client.get(path).headers["cache-control"] == "no-store"
    style = client.get("/surveys/page.css")
    again = client.get("/surveys/page.css", headers={"if-none-match": style.headers["etag"]})
    assert again.status_code == 304


def test_unexpected_error_shows_no_traceback(client, address, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(app, "run", broken)
    answer = Client(client.app, base_url=HERE, headers=BEARER).get(f"{address}/count")
    assert answer.status_code == 500 and "secret" not in answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_failing_store_reveals_no_paths():
    class Failing(InMemory):
        def tally(self, survey):
            raise StoreError("the segment /srv/secret/place.parquet is gone")

        def status(self, survey):
            raise StoreError("the store in /srv/secret says: no")

    failing = Failing(tally(100))
    client = Client(pages(failing), base_url=HERE, headers=BEARER)
    fingerprint = failing.surveys()[0].fingerprint
    for path in (f"/v1/surveys/{fingerprint}/query/count", f"/surveys/{fingerprint}"):
        answer = client.get(path)
        assert answer.status_code in (500, 503)
        assert "secret" not in answer.text


# Names that are code


class Links(HTMLParser):
    """All elements of a page, their attributes, the links, and the text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.links, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [value for name, value in attrs if name == "href" and tag == "a"]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


def answer_of(text):
    return text[
        text.index('<section id="answer"') : text.index('<section aria-labelledby="reports"')
    ]


@pytest.mark.parametrize("show", SHOWS)
@pytest.mark.parametrize("attribute", ["<svg><b>", "@age & 'b'"])
def test_names_are_only_text(client, collected, show, attribute):
    pairs = urlencode({"show": show, "attribute": attribute})
    answer = client.get(f"/surveys/{collected.surveys()[1].fingerprint}?{pairs}")
    seen = Links(answer.text)
    assert seen.tags.count("script") == 1 and "b" not in seen.tags and "img" not in seen.tags
    assert not [name for name in seen.attributes if name.startswith("on") or name == "style"]
    assert seen.tags.count("svg") <= 4
    assert (
        "{{ 7 * 7 }}" in seen.text
        or attribute != "<svg><b>"
        or show not in ("histogram", "heatmap")
    )


@pytest.mark.parametrize("kind", ["svg", "csv"])
def test_names_in_files_are_only_text(client, collected, kind):
    words = urlencode({"attribute": "<svg><b>"})
    fingerprint = collected.surveys()[1].fingerprint
    answer = client.get(f"/v1/surveys/{fingerprint}/query/histogram.{kind}?{words}")
    assert answer.status_code == 200
    if kind == "svg":
        texts = [one.text or "" for one in ET.fromstring(answer.text).iter()]
        assert any("<script>" in text for text in texts)
        return
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert [row[0] for row in rows[1:]] == [n if n[0] != "=" else f"'{n}" for n in NASTY]


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1"])
def test_cells_of_csv_are_no_formulas(start):
    assert csv_cell(start) == f"'{start}"
    assert [csv_cell(cell) for cell in (-1.5, None, float("nan"), "a")] == ["-1.5", "", "", "a"]


# Load


async def _many(application, path, count):
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url=HERE, headers=BEARER) as client:
        asking = [asyncio.create_task(client.get(path)) for _ in range(count)]
        await asyncio.sleep(0.1)
        start = time.perf_counter()
        style = await client.get("/surveys/page.css")
        took = time.perf_counter() - start
        return await asyncio.gather(*asking), style, took


def test_too_many_queries_at_once_get_status_503():
    """Some are answered, the others may try again, and other requests do not wait."""
    made = tally(500)
    path = f"/v1/surveys/{made.survey.fingerprint}/query/count"
    answers, style, took = asyncio.run(
        _many(pages(Slow(made)), path, app.RUNNING + app.WAITING + 3)
    )
    codes = sorted(one.status_code for one in answers)
    assert codes == [200] * (app.RUNNING + app.WAITING) + [503] * 3
    assert all("retry-after" in one.headers for one in answers if one.status_code == 503)
    assert style.status_code == 200 and took < 0.3


def test_what_updates_by_itself_shows_confidence_sequences(client, address, page):
    """Only one timer runs, and only with the box that asks for confidence sequences."""
    folder = Path(app.__file__).parent
    script = (folder / "static" / "page.js").read_text("utf-8")
    (timer,) = [line for line in script.splitlines() if "setInterval" in line]
    assert 'getElementById("anytime").checked' in timer
    for template in (folder / "templates").glob("*.html"):
        text = template.read_text("utf-8").lower()
        assert "http-equiv" not in text and "setinterval" not in text, template.name
    for show in SHOWS:
        text = Links(answer_of(client.get(f"{page}?show={show}&anytime=true").text)).text
        assert "95% confidence sequence" in text and "95% CI" not in text, show
    for query in (
        "count?where=region=='north'",
        "histogram?attribute=age",
        "cdf?attribute=age",
        "quantile?attribute=age",
        "count?by=region",
        "mean?by=region&attribute=age",
        "count?by=age&by=region",
    ):
        rows = {}
        for anytime in ("false", "true"):
            data = client.get(f"{address}/{query}&anytime={anytime}").json()
            rows[anytime] = [row["ci_high"] for row in data["rows"]]
        pairs = list(zip(rows["true"], rows["false"], strict=True))
        assert all(one >= other for one, other in pairs), query
        assert any(one > other for one, other in pairs), query
