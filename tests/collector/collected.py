"""A collector in memory, for tests of the page; and people to fill it with."""

from __future__ import annotations

import asyncio
import hmac
import time

import httpx
import numpy as np

from metricldp import Categorical, Continuous, Integer, Survey
from metricldp.collector.base import Status
from metricldp.mechanisms.randomness import Randomness

TOKEN = "t0ken-for-analysts"
NASTY = (
    "<script>alert(1)</script>",
    "</title><b>x",
    "=cmd|' /C calc'!A0",
    '"><img src=x onerror=alert(1)>',
    "a,b\"c'd",
    "{{ 7 * 7 }} & ]]>",
)


class InMemory:
    """What `Collected` asks for, with one token for the first surveys and one for all."""

    def __init__(self, *tallies, token=TOKEN):
        self._tallies, self._token = list(tallies), token
        self.closed, self.presentations = False, ((1_764_000_000, "ab" * 32),)

    def surveys(self):
        return [tally.survey for tally in self._tallies]

    def tally(self, survey):
        return next(t for t in self._tallies if t.survey.fingerprint == survey.fingerprint)

    def status(self, survey):
        n, now = self.tally(survey).n, 490_000
        hours = ((now - 3, n // 2), (now - 1, n // 4), (now, n - n // 2 - n // 4)) if n else ()
        outcomes = {"accepted": n, "duplicate": 3, "length": 2, "range": 0}
        return Status(n, 0, hours, outcomes, self.closed, self.presentations)

    def allowed(self, token, survey, scope):
        right = hmac.compare_digest(token.encode(), self._token.encode())
        return right and scope == "ask"


class Slow(InMemory):
    """A collector whose tally takes a while."""

    def tally(self, survey):
        time.sleep(0.15)
        return super().tally(survey)


def people(n, seed=1):
    random = np.random.default_rng(seed)
    regions = np.array(["north", "south", "east", "west"])
    region = random.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    age = np.clip(random.normal(35 + 4 * region, 14, n), 0, 99).astype(int)
    income = np.clip(random.gamma(3, 12_000 + 250 * age, n), 0, 199_999)
    return {"age": age, "income": income, "region": regions[region]}


def survey():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=2, mechanism="geometric"),
            "income": Continuous(0, 200_000, bins=100, epsilon=1, per=4000, mechanism="geometric"),
            "region": Categorical(["north", "south", "east", "west"], epsilon=3),
        }
    )


def tally(n=20_000, seed=1):
    asked = survey()
    return asked.tally(asked.randomize(people(n, seed), randomness=Randomness.seeded(seed)))


def nasty_tally(n=300):
    """Names that are HTML, SVG, CSV and templates."""
    asked = Survey.design(
        {
            "<svg><b>": Categorical(list(NASTY), epsilon=4),
            "@age & 'b'": Integer(-5, 9, epsilon=2, mechanism="geometric", per=1),
        }
    )
    values = {"<svg><b>": [NASTY[k % len(NASTY)] for k in range(n)]}
    values["@age & 'b'"] = [k % 15 - 5 for k in range(n)]
    return asked.tally(asked.randomize(values, randomness=Randomness.seeded(2)))


class Client:
    """Requests to an application without a network, one after the other."""

    def __init__(self, app, *, base_url, headers=None):
        self.app, self._cookies = app, httpx.Cookies()
        self._how = {"base_url": base_url, "headers": headers}

    def get(self, path, **more):
        return asyncio.run(self._ask("GET", path, more))

    def post(self, path, **more):
        return asyncio.run(self._ask("POST", path, more))

    async def _ask(self, method, path, more):
        transport = httpx.ASGITransport(app=self.app)
        how = {**self._how, "cookies": self._cookies}
        async with httpx.AsyncClient(transport=transport, **how) as client:
            found = await client.request(method, path, **more)
            self._cookies = client.cookies
            return found
