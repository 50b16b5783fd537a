"""The page and the API over HTTP: answers, refusals, tokens, and what others could try."""

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
import pytest
from collected import NASTY, TOKEN, Client, InMemory, Slow, nasty_tally, people, survey, tally
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from metricldp import Integer, Survey
from metricldp.answers.quick import Quick
from metricldp.app import cli
from metricldp.app.web import costs, pages, site, view
from metricldp.app.web.asked import MOST_WORDS, NAMES
from metricldp.app.web.tables import Table, to_csv
from metricldp.collector.base import Status
from metricldp.collector.database import StoreError

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
    return f"/v1/surveys/{collected.surveys()[0].fingerprint}"


@pytest.fixture(scope="module")
def page(collected):
    return f"/surveys/{collected.surveys()[0].fingerprint}"


# Answers


@pytest.mark.parametrize(
    ("question", "words", "more"),
    [
        ("count", ["age=18..29", "region=north"], {"liars": "3"}),
        ("fraction", ["income<50000"], {}),
        ("sum", [], {"attribute": "age"}),
        ("mean", ["region=north,south"], {"attribute": "age"}),
        ("quantile", ["region!=west"], {"attribute": "age"}),
        ("histogram", [], {"attribute": "region", "liars": "20"}),
        ("histogram", [], {"attribute": "age", "width": "25"}),
        ("linear", [], {"attribute": "age", "workload": "10 bars"}),
    ],
)
def test_answers_are_those_of_the_command_line(
    client, address, tmp_path_factory, question, words, more
):
    folder = tmp_path_factory.getbasetemp() / "web"
    if not folder.exists():
        folder.mkdir()
        survey().save(folder / "survey.toml")
        tally().save(folder / "reports.parquet")
    said = [str(folder / "survey.toml"), str(folder / "reports.parquet")]
    said += [more["attribute"]] if "attribute" in more else []
    options = [f"--{name}={word}" for name, word in more.items() if name != "attribute"]
    printed = CliRunner().invoke(cli.app, [question, *said, *words, *options, "--json"])
    there = json.loads(printed.stdout)
    here = client.get(
        f"{address}/{question}", params=[("where", w) for w in words] + [*more.items()]
    )
    assert here.status_code == 200, here.text
    assert here.headers["content-type"] == "application/json"
    assert_same(here.json(), there)


def assert_same(here, there):
    """The same in all but the ends of intervals, where the command line may have a bracket."""
    if isinstance(there, dict):
        assert here.keys() == there.keys()
        for key in there.keys() - {"method", "low", "high", "layout"}:
            assert_same(here[key], there[key])
    elif isinstance(there, list):
        for one, other in zip(here, there, strict=True):
            assert_same(one, other)
    elif isinstance(there, float):
        assert here == pytest.approx(there, rel=1e-9, abs=1e-9)
    else:
        assert here == there


def test_groups_and_heat_maps(client, address):
    found = client.get(f"{address}/groups?by=region&of=age&against=west").json()
    assert [one["label"] for one in found["answers"]] == ["north", "south", "east", "west"]
    assert found["answers"][3]["difference"] is None
    first = found["answers"][0]
    assert first["difference"]["value"] == pytest.approx(
        first["value"] - found["answers"][3]["value"]
    )
    cells = client.get(f"{address}/heatmap?attribute=region&by=age&by_width=25").json()
    assert (len(cells["rows"]), len(cells["columns"]), len(cells["answers"])) == (4, 4, 16)


@pytest.mark.parametrize("show", ["histogram", "cdf", "heatmap", "groups"])
def test_every_chart_as_a_file(client, address, page, show):
    """The links on the page lead to a table, a chart and data."""
    where = "region=north" if show == "heatmap" else "income=0..100000"
    text = client.get(page, params={"show": show, "where": where}).text
    links = Links(text).links
    for kind in ("csv", "svg", "json"):
        (link,) = [one for one in links if urlsplit(one).path.endswith(f"/{show}.{kind}")]
        found = client.get(link)
        assert found.status_code == 200, found.text
        if kind == "svg":
            drawing = ET.fromstring(found.text)
            assert not [one for one in drawing.iter() if "style" in one.tag or "script" in one.tag]
            assert not [one for one in drawing.iter() if "style" in one.attrib]
        elif kind == "csv":
            rows = list(csv.reader(io.StringIO(found.text)))
            assert len({len(row) for row in rows}) == 1 and len(rows) > 4
        assert ("attachment" in found.headers.get("content-disposition", "")) == (kind != "json")
    assert client.get(f"{address}/{show}.png").status_code == 404


def test_the_address_is_the_question(client, page):
    said = [
        ("show", "histogram"),
        ("attribute", "age"),
        ("where", "region=north"),
        ("level", "0.9"),
    ]
    asked = client.get(page, params=[*said, ("where", ""), ("of", " ")]).text
    (link,) = [one for one in Links(asked).links if one.startswith(f"{page}?")]
    assert parse_qsl(urlsplit(link).query) == [*said[:2], said[3], said[2]]
    assert _answer(client.get(link).text) == _answer(asked)
    assert "People by age among region=north" in asked


def test_liars_and_watching(client, address):
    plain = client.get(f"{address}/count?where=region=north").json()
    told = client.get(f"{address}/count?where=region=north&liars=7&anytime=1").json()
    assert told["anytime"] and told["low"] < plain["low"] and told["high"] > plain["high"]
    ((low, high),) = told["liars"]["without_them"]
    assert told["liars"]["devices"] == 7 and low < told["value"] < high
    bars = client.get(f"{address}/histogram?attribute=region&liars=7").json()
    assert bars["liars"]["without_them"][0] == pytest.approx([low, high])
    for question in ("cdf?attribute=age", "groups?by=region&of=age", "quantile?attribute=age"):
        found = client.get(f"{address}/{question}&liars=7").json()["liars"]["without_them"]
        assert all(low <= high for low, high in found)


def test_before_the_first_report():
    empty = survey()
    client = Client(pages(InMemory(empty.tally([]))), base_url=HERE, headers=BEARER)
    found = client.get(f"/surveys/{empty.fingerprint}")
    assert found.status_code in (200, 400) and "No report has come yet" in found.text
    for question in ("count", "fraction", "mean?attribute=age", "cdf?attribute=age"):
        assert client.get(f"/v1/surveys/{empty.fingerprint}/{question}").status_code in (200, 400)


def test_hours_become_days_and_refusals_are_counted():
    hours = tuple((490_000 + 5 * k, 2) for k in range(40))
    status = Status(80, 7, hours, {"accepted": 80, "range": 3, "late": 0}, True)
    made = Quick.over(tally(80))
    code, text = view.survey(made, status, [])
    assert code == 200 and "Reports accepted by day (UTC)" in text
    assert "7 more wait for their batch" in text and "closed" in text
    assert "Never so far: late." in text and '<th scope="row">range</th>' in text
    _, text = view.survey(made, replace(status, per_hour=hours[:3]), [])
    assert "Reports accepted by hour (UTC)" in text


# Mistakes


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("count?where=age=18..x", "age takes finite numbers"),
        ("count?where=agee=3", "did you mean 'age'"),
        ("count?where=region=nort", "north"),
        ("count?level=2", "level lies between 0 and 1"),
        ("count?level=abc", "level: 'abc' is not a number"),
        ("count?about=martians", "respondents"),
        ("count?liars=-1", "lying devices"),
        ("count?liars=1000000", "cannot lie"),
        ("count?foo=1", "no part of a question is called 'foo'"),
        ("count?level=0.9&level=0.8", "said twice"),
        ("median?attribute=age", "no question is called 'median'"),
        ("histogram", "needs attribute="),
        ("histogram?attribute=age&where=age=3", "leave it out of where"),
        ("histogram?attribute=age&width=-4", "positive width"),
        ("mean?attribute=region", "region"),
        ("quantile?attribute=age&p=7", "between 0 and 1"),
        ("quantile?attribute=age&method=guess", "isotonic"),
        ("groups?by=region&against=nowhere", "no group of region"),
        ("groups?by=region&of=region", "region"),
        ("groups?by=region&of=age=3&where=region=north", "leave it out"),
        ("heatmap?attribute=age", "by="),
        ("heatmap?attribute=age&by=age", "two attributes"),
        ("count.svg", "no chart"),
        ("linear?attribute=age&workload=ranges", "at most 4,096"),
        ("count?anytime=perhaps", "1 or 0"),
    ],
)
def test_a_mistake_is_one_line(client, address, page, question, said):
    found = client.get(f"{address}/{question}")
    assert found.status_code == 400, found.text
    assert found.headers["content-type"] == "application/problem+json"
    told = found.json()
    assert told["type"] == "urn:metricldp:problem:question" and told["status"] == 400
    assert said in told["title"] and "\n" not in told["title"]


def test_a_mistake_on_the_page_is_readable_and_the_form_stays(client, page):
    found = client.get(f"{page}?show=histogram&attribute=age&where=agee=3")
    assert found.status_code == 400
    assert "did you mean &#39;age&#39;?" in found.text and 'value="agee=3"' in found.text
    assert client.get(f"{page}?show=nothing").status_code == 400


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_every_question(client, page, name):
    words = "&attribute=age&by=region&workload=prefixes&width=20&by_width="
    found = client.get(f"{page}?show={name}{words}")
    assert found.status_code == 200, found.text
    assert "Table" in found.text


def test_a_condition_on_what_would_be_drawn_draws_something_else(client, page):
    """Links say what they mean; whoever types a condition only gets what can be drawn of it."""
    found = client.get(f"{page}?where=age=18..29").text
    assert "among age=18..29" in found
    assert "People by age" not in found
    every = "where=age=18..29&where=income=0..50000&where=region=north"
    found = client.get(f"{page}?{every}")
    assert found.status_code == 200
    assert ".svg?" not in found.text
    assert "Count of" in found.text


@pytest.mark.parametrize(
    "words",
    [
        [("where", "age=3")] * (MOST_WORDS + 1),
        [("where", f"age={'1' * 1200}")],
        [("where", "region=north," * 70)] * 12,
        [("p", "0.5")] * 30,
        [("liars", "9" * 900)],
        [("level", "0." + "9" * 900)],
        [("width", "1e-300")],
        [("width", "1e400")],
    ],
)
def test_too_much_is_refused(client, address, words):
    question = "quantile" if words[0][0] == "p" else "histogram"
    found = client.get(f"{address}/{question}", params=[("attribute", "age"), *words])
    assert found.status_code == 400, found.text
    assert len(found.text) < 1000


def test_a_question_that_would_take_minutes(client, address, monkeypatch):
    monkeypatch.setattr(costs, "MOST_SECONDS", 1e-4)
    found = client.get(f"{address}/heatmap?attribute=age&by=income&width=10&by_width=20000")
    assert found.status_code == 400 and "command line" in found.json()["title"]


def test_large_domains_need_a_width():
    wide = Survey({"a": Integer(0, 4000, epsilon=1, per=100, mechanism="geometric")})
    made = wide.tally(wide.encode({"a": list(range(0, 4000, 10))}))
    client = Client(pages(InMemory(made)), base_url=HERE, headers=BEARER)
    found = client.get(f"/v1/surveys/{wide.fingerprint}/histogram?attribute=a")
    assert found.status_code == 400 and "give a width" in found.json()["title"]
    assert client.get(f"/surveys/{wide.fingerprint}").status_code == 200


KEYS = ("show", "attribute", "by", "of", "against", "width", "by_width", "where", "p", "level")
KEYS += ("about", "anytime", "liars", "simultaneous", "workload", "method", "x")
WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["age", "income", "region", "heatmap", "groups", "cdf", "0.5", "1", "30"]),
    st.sampled_from(["age=1..5", "region=north", "age>=3", "region<north", "age=unanswered"]),
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(KEYS), WORDS), max_size=5))
def test_whatever_is_asked_nothing_breaks(client, page, address, said):
    assert client.get(page, params=said).status_code in (200, 400)
    found = client.get(f"{address}/histogram", params=said)
    assert found.status_code in (200, 400)
    assert "Traceback" not in found.text


# Who may ask


def test_without_a_token_there_is_nothing(stranger, address, page):
    found = stranger.get(f"{address}/count")
    assert found.status_code == 401 and found.headers["www-authenticate"] == "Bearer"
    assert found.headers["content-type"] == "application/problem+json"
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
    form = {"token": TOKEN, "next": asked}
    found = stranger.post("/surveys/login", data=form)
    assert found.status_code == 303 and found.headers["location"] == asked
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "; secure" not in cookie
    assert TOKEN not in found.headers["location"]
    assert stranger.get(asked).status_code == 200
    assert "age, income and region" in stranger.get("/surveys").text
    out = stranger.post("/surveys/logout")
    assert out.status_code == 303
    assert stranger.get(asked).status_code == 401


def test_the_cookie_is_secure_everywhere_else(collected, page):
    there = Client(pages(collected), base_url="https://example.org")
    found = there.post("/surveys/login", data={"token": TOKEN})
    cookie = found.headers["set-cookie"]
    assert cookie.startswith("__Host-metricldp=") and "; Secure" in cookie
    assert "Path=/" in cookie and "Domain" not in cookie
    assert there.get(page).status_code == 200
    proxied = Client(pages(collected), base_url=HERE, headers={"x-forwarded-proto": "https"})
    found = proxied.post("/surveys/login", data={"token": TOKEN})
    assert "; Secure" in found.headers["set-cookie"]


@pytest.mark.parametrize(
    "onward",
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
def test_logging_in_leads_nowhere_else(stranger, onward):
    found = stranger.post("/surveys/login", data={"token": TOKEN, "next": onward})
    assert found.status_code == 303 and found.headers["location"] == "/surveys"
    assert len(found.headers.get_list("set-cookie")) == 1


@pytest.mark.parametrize("token", ["", "wrong", "x" * 600, "ü", "a\x00b"])
def test_a_wrong_token(stranger, token):
    found = stranger.post("/surveys/login", data={"token": token})
    assert found.status_code == 401 and "set-cookie" not in found.headers
    assert len(token) < 9 or token not in found.text


def test_forms_of_other_sites_and_large_ones(stranger):
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        found = stranger.post("/surveys/login", data={"token": TOKEN}, headers=headers)
        assert found.status_code == 403 and "set-cookie" not in found.headers
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
        "/v1/surveys/%00/count",
        "/nothing",
    ],
)
def test_paths_that_lead_out(client, path):
    found = client.get(path)
    assert found.status_code in (404, 401) and "root:" not in found.text


@pytest.mark.parametrize("path", ["/surveys", "/surveys/page.css", "/nothing", "/v1/surveys/x/y"])
def test_every_answer_is_guarded(client, path):
    found = client.get(path)
    assert found.headers["content-security-policy"].startswith("default-src 'none';")
    assert "unsafe" not in found.headers["content-security-policy"]
    assert found.headers["x-content-type-options"] == "nosniff"


def test_answers_are_not_kept_by_anybody(client, page, address):
    for path in (page, f"{address}/count"):
        assert client.get(path).headers["cache-control"] == "no-store"
    style = client.get("/surveys/page.css")
    again = client.get("/surveys/page.css", headers={"if-none-match": style.headers["etag"]})
    assert again.status_code == 304


def test_a_bug_is_no_traceback(client, address, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(site, "answer", broken)
    safe = Client(client.app, base_url=HERE, headers=BEARER)
    found = safe.get(f"{address}/count")
    assert found.status_code == 500 and "secret" not in found.text
    assert found.headers["content-type"] == "application/problem+json"


# Names that are programs


class Links(HTMLParser):
    """All elements, their attributes, and the links, of a page."""

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


def _answer(text):
    return text[text.index('<section id="answer"') : text.index("What came in")]


@pytest.mark.parametrize("show", ["histogram", "cdf", "heatmap", "groups"])
@pytest.mark.parametrize("attribute", ["<svg><b>", "@age & 'b'"])
def test_names_are_only_text(client, collected, show, attribute):
    asked = collected.surveys()[1]
    said = urlencode({"show": show, "attribute": attribute})
    found = client.get(f"/surveys/{asked.fingerprint}?{said}")
    seen = Links(found.text)
    assert seen.tags.count("script") == 1 and "b" not in seen.tags and "img" not in seen.tags
    assert not [name for name in seen.attributes if name.startswith("on") or name == "style"]
    assert seen.tags.count("svg") <= 2
    assert "{{ 7 * 7 }}" in found.text or attribute != "<svg><b>" or show == "cdf"


@pytest.mark.parametrize("kind", ["svg", "csv"])
def test_names_in_files(client, collected, kind):
    asked = collected.surveys()[1]
    words = urlencode({"attribute": "<svg><b>"})
    found = client.get(f"/v1/surveys/{asked.fingerprint}/histogram.{kind}?{words}")
    assert found.status_code == 200
    if kind == "svg":
        texts = [one.text or "" for one in ET.fromstring(found.text).iter()]
        assert any("<script>" in text for text in texts)
        return
    rows = list(csv.reader(io.StringIO(found.text)))
    assert [row[0] for row in rows[1:]] == [n if n[0] != "=" else f"'{n}" for n in NASTY]


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1"])
def test_no_cell_is_a_formula(start):
    text = to_csv(Table("", ("a", start), ((start, -1.5), (start, None))))
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert cells == ["a", f"'{start}", f"'{start}", "-1.5", f"'{start}", ""]


# Turns


async def _many(app, path, count):
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=HERE, headers=BEARER) as client:
        asking = [asyncio.create_task(client.get(path)) for _ in range(count)]
        await asyncio.sleep(0.1)
        start = time.perf_counter()
        style = await client.get("/surveys/page.css")
        took = time.perf_counter() - start
        return await asyncio.gather(*asking), style, took


def test_many_questions_at_once():
    """Some are answered, the others told to come back, and nobody else has to wait."""
    made = tally(500)
    app = pages(Slow(made))
    path = f"/v1/surveys/{made.survey.fingerprint}/count"
    found, style, took = asyncio.run(_many(app, path, site.RUNNING + site.WAITING + 3))
    codes = sorted(one.status_code for one in found)
    assert codes == [200] * (site.RUNNING + site.WAITING) + [503] * 3
    assert all("retry-after" in one.headers for one in found if one.status_code == 503)
    assert style.status_code == 200 and took < 0.3


def test_a_quick_tally_is_the_same_tally():
    made = tally(2000)
    quick, where = Quick.over(made), {"age": (18, 29), "region": "north"}
    one, other = quick.count(where), made.count(where)
    assert (one.value, one.stderr) == (other.value, other.stderr)
    assert one.interval(0.95, "bracket") == other.interval(0.95, "bracket")
    assert one.method() == "normal"
    low, high = quick.count({"age": 99}).interval()
    assert low >= 0 and high <= made.n


def test_people_are_as_the_truth_says(client, address):
    """An answer over HTTP, against the people who were blurred."""
    truth = people(20_000)
    inside = ((truth["age"] >= 18) & (truth["age"] <= 29)).sum()
    told = client.get(f"{address}/count?where=age=18..29&level=0.999999").json()
    assert told["low"] <= inside <= told["high"]


def test_a_store_that_fails_tells_nothing_of_itself():
    """Its errors name files and servers; who asks gets none of that."""

    class Failing(InMemory):
        def tally(self, survey):
            raise StoreError("the segment /srv/secret/place.parquet is gone")

        def status(self, survey):
            raise StoreError("the store in /srv/secret says: no")

    failing = Failing(tally(100))
    client = Client(pages(failing), base_url=HERE, headers=BEARER)
    fingerprint = failing.surveys()[0].fingerprint
    for path in (f"/v1/surveys/{fingerprint}/count", f"/surveys/{fingerprint}"):
        found = client.get(path)
        assert found.status_code in (500, 503)
        assert "secret" not in found.text


def test_what_updates_by_itself_shows_intervals_for_all_looks(client, address):
    """Only one thing on any page does, and only with the box checked that asks for them."""
    web = Path(site.__file__).parent
    script = (web / "static" / "page.js").read_text("utf-8")
    (timer,) = [line for line in script.splitlines() if "setInterval" in line]
    assert 'getElementById("anytime").checked' in timer
    for page in (web / "templates").glob("*.html"):
        text = page.read_text("utf-8").lower()
        assert "http-equiv" not in text and "setinterval" not in text, page.name
    for question in (
        "count?where=region=north",
        "histogram?attribute=age",
        "cdf?attribute=age",
        "quantile?attribute=age",
        "groups?by=region",
        "groups?by=region&of=age",
        "heatmap?attribute=age&by=region",
    ):
        told = client.get(f"{address}/{question}&anytime=1").json()
        rows = told.get("quantiles", [told])
        assert all(row["anytime"] is True for row in rows), question
