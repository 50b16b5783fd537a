"""The trusted core of metricldp: from a manifest to the bytes of a report, and the proof.

Read in this order: `exact` (comparisons with powers of e), `random_words` (random integers),
`distributions` (what a report can be, and its likelihood ratios), `metrics` (what is guaranteed),
`verify` (the proof), `values` (responses to positions), `manifest` and `report` (formats),
`guarantee` (sentences about the guarantee), `device`.
The package imports the standard library only.
"""

from metricldp_core.device import Device
from metricldp_core.errors import (
    CertificateError,
    InvalidManifestError,
    InvalidValueError,
    MetricLdpError,
)
from metricldp_core.manifest import Manifest
from metricldp_core.verify import certify

__all__ = [
    "CertificateError",
    "Device",
    "InvalidManifestError",
    "InvalidValueError",
    "Manifest",
    "MetricLdpError",
    "certify",
]
