"""Cases that once went wrong: each is tried again with every run of the tests."""

import numpy as np

LONG = "9" * 5000

WHERES = [
    # A refusal repeated the whole of what was typed.
    f" age {LONG}",
    f"age=18...{LONG}",
    f"flag={LONG}-{LONG}",
    # An array among the values of a list has no truth value.
    {"region": [np.array([1, 2])]},
    {"mood": (np.array([]), "bad")},
    {"region": [np.array([], dtype=float), np.nan]},
]

SPECS = [
    # The canonical text of a law with a million bits took four seconds, each time.
    {
        "attributes": {
            "x": {
                "kind": "integer",
                "low": 0,
                "high": 1048575,
                "epsilon": 0.05,
                "mechanism": "unary-symmetric",
            }
        },
    },
    # Two numbers of a million digits were divided, to find that the ratio is below 2.
    {
        "attributes": {
            "x": {
                "kind": "integer",
                "low": 0,
                "high": 1048575,
                "epsilon": 0.0001,
                "mechanism": "subset",
            }
        },
    },
    # A workload beside its patterns was not looked at, and was no number for canonical text.
    {
        "attributes": {
            "x": {
                "kind": "integer",
                "low": 0,
                "high": 7,
                "epsilon": 1,
                "within": 2,
                "mechanism": {
                    "name": "additive",
                    "workload": 9007199254740993,
                    "patterns": ["0011221100"],
                },
            }
        },
    },
    # A smallest distance that is no float, and one that was asked for while it was being made.
    {
        "attributes": {
            "x": {
                "kind": "integer",
                "low": 0,
                "high": 4,
                "epsilon": 1,
                "per": 1e-320,
                "max_epsilon": 2,
            }
        },
    },
    {
        "attributes": {
            "x": {
                "kind": "integer",
                "low": 2,
                "high": 7,
                "epsilon": 1,
                "metric": {"kind": "relative", "by": 0.5},
                "max_epsilon": 0.01,
            }
        },
    },
    # Windows so narrow that their number is beyond 64 bits.
    {
        "attributes": {
            "x": {"kind": "continuous", "edges": [0, 1, 2.5, 10], "epsilon": 1, "within": 1e-300}
        },
    },
]
