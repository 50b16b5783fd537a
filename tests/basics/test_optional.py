"""Libraries that may be missing: loaded at their first use, and missed in one line."""

import sys

import pytest

from metricldp.basics.errors import MetricLdpError, MissingLibrary
from metricldp.basics.optional import loaded, optional


def test_a_library_is_loaded_at_its_first_use(monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    library = optional("matplotlib")
    assert not hasattr(library, "__wrapped__")
    assert "matplotlib" not in sys.modules
    assert library.get_backend
    assert "matplotlib" in sys.modules


def test_a_module_in_a_library_is_that_module():
    import scipy.sparse

    assert optional("scipy.sparse").csr_array is scipy.sparse.csr_array
    assert loaded("scipy.sparse") is scipy.sparse


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("matplotlib.pyplot", r"pictures need matplotlib \(.*install 'metricldp\[plot\]'"),
        ("scipy.sparse", r"needs scipy \(.*install 'metricldp\[design\]'"),
        ("pyarrow", r"files of reports need pyarrow \(.*install 'metricldp'"),
        ("typer", r"command line needs typer \(.*install 'metricldp\[cli\]'"),
    ],
)
def test_a_missing_library_says_what_it_is_for_and_how_to_install_it(monkeypatch, name, message):
    for part in (name, name.partition(".")[0]):
        monkeypatch.setitem(sys.modules, part, None)
    library = optional(name)
    with pytest.raises(MissingLibrary, match=message) as refused:
        _ = library.anything
    assert isinstance(refused.value, MetricLdpError)
    assert isinstance(refused.value, ImportError)
    assert "\n" not in str(refused.value)
