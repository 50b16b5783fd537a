"""Readers of single reports from a manifest alone, without its survey."""

from metricldp.channels.fields import Bits, Clear, Number, Struct
from metricldp.reports.one import ReportReader
from metricldp_core.distributions import Matrix, OneInteger


def reader_of(manifest):
    return ReportReader(manifest, map(column_of, manifest.fields))


def column_of(field):
    """The column of a field of a manifest."""
    match field.distribution:
        case None:
            return Clear(field.domains[0].low, field.domains[0].high)
        case OneInteger() as found:
            return Number(found.outputs)
        case Matrix() as found:
            return Struct(tuple(row.noise.size for row in found.rows))
    return Bits(field.bits)
