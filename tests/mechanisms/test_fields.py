"""Fields: columns to bits and back, and what no device could have sent."""

import math
import struct

import numpy as np
import pytest

from metricldp.lab.peers.hierarchy_unary import LevelBits
from metricldp.mechanisms.fields import (
    Bits,
    Clear,
    Field,
    Number,
    Struct,
    read_number,
    write_number,
)

LISTED = [Number(2), Number(5), Number(256), Number(257), Bits(1), Bits(8), Bits(11)]
LISTED += [Struct((3, 5, 2)), Struct((2,)), Struct((300, 1, 7)), LevelBits((2, 3, 9))]
each = pytest.mark.parametrize("field", LISTED, ids=str)


@each
def test_everything_that_can_be_sent_is_valid_and_returns(field):
    column = field.every()
    assert column.shape[1:] == field.empty(3).shape[1:]
    assert column.dtype == field.empty(3).dtype
    assert not field.invalid(column).any()
    bits = field.pack(column)
    assert bits.shape == (len(column), field.bits)
    assert len(np.unique(bits, axis=0)) == len(column)
    again = field.unpack(bits)
    assert again.dtype == column.dtype
    np.testing.assert_array_equal(again, column)


@each
def test_all_other_bits_are_invalid(field):
    """Of all patterns of bits, padding included, just those are valid that are listed."""
    column = field.every()
    if column.ndim == 1:
        width = 8 * column.itemsize
        everything = np.arange(1 << width, dtype=np.uint64).astype(column.dtype)
    else:
        width = 8 * column.shape[1]
        patterns = np.arange(1 << width, dtype="<u4").view(np.uint8)
        everything = patterns.reshape(-1, 4)[:, : column.shape[1]].copy()
    valid = everything[~field.invalid(everything)]
    np.testing.assert_array_equal(np.unique(valid, axis=0), np.unique(column, axis=0))


def test_a_number_takes_the_smallest_type_that_holds_it():
    """As docs/specification.md says of columns; 256 different numbers fit into a byte."""
    sizes = (2, 255, 256, 257, 1 << 16, (1 << 16) + 1, 1 << 32, (1 << 32) + 1)
    assert [Number(size).dtype.itemsize for size in sizes] == [1, 1, 1, 2, 2, 4, 4, 8]


def test_a_struct_is_read_as_its_numbers():
    struct = Struct((5, 300, 2))
    column = struct.listed([struct.joined([4, 257, 1]), struct.joined([0, 3, 0])])
    assert [part.tolist() for part in struct.numbers(column)] == [[4, 0], [257, 3], [1, 0]]
    assert [part.tolist() for part in Number(9).numbers(np.array([3, 8]))] == [[3, 8]]


def test_the_first_bit_is_the_lowest():
    assert Number(1000).pack(np.array([6], dtype=np.uint16))[0].tolist() == [0, 1, 1] + [0] * 7
    assert Bits(9).pack(np.array([[2, 1]], dtype=np.uint8))[0].tolist() == [0, 1] + [0] * 6 + [1]
    struct = Struct((5, 300, 2))
    assert struct.starts == [0, 3, 12]
    assert struct.joined([4, 257, 1]) == 4 | 257 << 3 | 1 << 12
    (row,) = struct.listed([struct.joined([4, 257, 1])])
    assert [int(struct.read(row[None], part)[0]) for part in range(3)] == [4, 257, 1]


def test_floats_return_to_the_last_bit_and_others_are_refused():
    field = Clear(-1.0, 2.5)
    column = np.array([-1.0, 0.1, -0.0, 2.5, 5e-324])
    again = field.unpack(field.pack(column))
    assert again.tobytes() == column.tobytes()
    wrong = np.array([np.nextafter(-1.0, -2), 2.6, np.nan, np.inf, -np.inf, 0.0])
    assert field.invalid(wrong).tolist() == [True] * 5 + [False]
    assert not field.invalid(column).any()
    with pytest.raises(NotImplementedError, match="too many to be listed"):
        field.every()


def test_which_columns_are_worth_a_dictionary():
    assert [f.small_numbers for f in (Number(300), Number(1 << 18), Number(1 << 40))] == [1, 1, 0]
    assert not any(f.small_numbers for f in (Bits(3), Struct((2, 2)), Clear(0, 1)))


@pytest.mark.parametrize("start", range(9))
@pytest.mark.parametrize("bits", [0, 1, 7, 8, 9, 32, 40])
def test_numbers_stand_anywhere_in_a_row(start, bits):
    rng = np.random.default_rng(bits)
    numbers = rng.integers(0, 1 << bits, 50)
    column = np.zeros((50, 7), dtype=np.uint8)
    write_number(column, start, bits, numbers)
    np.testing.assert_array_equal(read_number(column, start, bits), numbers)
    whole = [int.from_bytes(row.tobytes(), "little") for row in column]
    assert whole == [number << start for number in numbers.tolist()]


@each
def test_one_field_at_a_time_is_judged_as_many_are(field):
    """Every integer of that many bits, without arrays; None only where each can be sent."""
    numbers = range(1 << field.bits)
    bits = np.array([[number >> k & 1 for k in range(field.bits)] for number in numbers])
    truth = field.invalid(field.unpack(bits.astype(np.uint8))).tolist()
    for impossible in (field.impossible(), Field.impossible(field)):
        found = [bool(impossible and impossible(number)) for number in numbers]
        assert found == truth
    assert (field.impossible() is None) <= (not any(truth))
    if isinstance(field, Number | Struct):
        assert (field.impossible() is None) == (not any(truth)), "no work where all can be sent"


def test_one_float_at_a_time_is_judged_as_many_are():
    field = Clear(-1.5, 2.0)
    values = [-1.5, 2.0, 0.0, -0.0, -1.5000001, 2.0000001, math.inf, -math.inf, math.nan, 5e-324]
    found = [field.impossible()(struct.unpack("<Q", struct.pack("<d", v))[0]) for v in values]
    assert found == field.invalid(np.array(values)).tolist()
    assert found == [False] * 4 + [True] * 5 + [False]
