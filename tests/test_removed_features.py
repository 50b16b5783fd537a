"""Documents do not describe features that were removed, nor errors that show values."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {ROOT / "CHANGELOG.md"})
REMOVED = {
    "trust": r"\btrust=|--trust\b",
    "errors with values": r"(error|message)s?\s+names?\s+the\s+value",
}


@pytest.mark.parametrize("feature", REMOVED)
def test_documents_do_not_describe_a_removed_feature(feature):
    found = [
        str(path.relative_to(ROOT))
        for path in DOCUMENTS
        if re.search(REMOVED[feature], path.read_text("utf-8"), re.IGNORECASE)
    ]
    assert not found
    assert ROOT / "SECURITY.md" in DOCUMENTS and len(DOCUMENTS) > 20
