// Domains of attributes: a response to a position, or an error that does not show the response.
//
// Responses that are accepted or clipped take the same steps whatever their size. A missing response
// to an optional attribute takes the position of the middle of the domain, by the same steps.
//
// A domain is an object with
//   name, kind  of the attribute
//   size        the number of positions
//   low, high   the ends of numbers
//   names       of categories, or of levels in order
//   edges       of bins: position k holds edges[k] <= v < edges[k + 1], the last one its end
//   given       whether the edges were listed
//   middle      the value that stands for a missing response; by default between the ends
//   stochastic  whether positions are in units of 2^-32, to be rounded at random to one of the two
//               nearest of evenly spaced points; with 2 points it is also that of a private weight
//   isPublic    whether a weight is sent as it is: the position is the 64 bits of the double
//   isResponse  whether it says if there is a response to an optional attribute: 0 if missing, else 1
//   optional    whether a response can be missing
//   cyclic      whether the values are on a ring; these are not clipped
//   within      which values the survey calls close: at most so far apart, as decimal text
//   ratio       or one larger than the other by at most this part of it

import { LARGEST_NUMBER, charge, double, flag, integer, list, oneOf, reject, text, textLine } from "./canonical.js";
import { MOST_POSITIONS, bisect, range } from "./distributions.js";
import { InvalidValueError } from "./errors.js";
import { bitLength, decimalOf, toNumber } from "./exact.js";
import { UNITS } from "./random_words.js";

const NUMBER = /^[+-]?(inf|infinity|nan|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)$/i;
const DECIMAL = /^(?=.*[1-9])(0|[1-9]\d{0,19})(\.\d{0,19}[1-9])?$/;
const LONGEST_TEXT = 1000;
const MOST_NAMES = 4096;
const COUNT = integer(2, MOST_POSITIONS);

function ends(entry) {
  const low = entry("low", double), high = entry("high", double);
  return low < high && high - low < Infinity ? { low, high } : reject("low");
}

const bins = (edges, cyclic, given) => ({ low: edges[0], high: edges.at(-1), edges, size: edges.length - 1, cyclic, given });

const cyclic = (entry) => entry("cyclic", flag, false);

function categorical(entry) {
  const names = entry("names", list(textLine, 2, MOST_NAMES)), size = names.length;
  return new Set(names).size < size ? reject("names") : { names, size, middle: names[size >> 1] };
}

const DOMAINS = {
  integer(entry) {
    const low = entry("low", integer(-LARGEST_NUMBER, LARGEST_NUMBER - 1));
    const high = entry("high", integer(low + 1, Math.min(low + MOST_POSITIONS - 1, LARGEST_NUMBER))), size = high - low + 1;
    return { low, high, size, middle: low + (size >> 1), cyclic: cyclic(entry) };
  },
  continuous(entry) {
    const given = entry("edges", list(double, 3, MOST_NAMES), false);
    if (given) return given.some((edge, k) => edge <= given[k - 1]) ? reject("edges") : bins(given, false, true);
    const { low, high } = ends(entry), points = entry("points", COUNT, 0);
    if (points) return { low, high, size: points, stochastic: true };
    const size = entry("bins", COUNT), [first, unit] = decimalOf(low), [end, endUnit] = decimalOf(high);
    const digits = bitLength(unit) + bitLength(endUnit) + bitLength(BigInt(Math.trunc(Math.max(Math.abs(low), Math.abs(high)))));
    charge((size >> 2) * (1 + (digits >> 7))); // its edges
    // low + k (high - low) / size with low and high as decimals, rounded once.
    const start = first * endUnit, width = end * unit - start, parts = BigInt(size), below = unit * endUnit * parts;
    return bins(range(size + 1).map((k) => toNumber([start * parts + BigInt(k) * width, below])), cyclic(entry));
  },
  weight: (entry) => ({ ...ends(entry), ...(entry("private", flag, false) ? { size: 2, stochastic: true } : { isPublic: true }) }),
  categorical,
  ordinal: (entry) => ({ ...categorical(entry), cyclic: cyclic(entry) }),
  response: () => ({ isResponse: true, size: 2 }),
};

/** The check of the domain of an attribute. */
export const domain = oneOf(DOMAINS, (made, kind, entry) => {
  const close = (value) => (DECIMAL.test(text(value)) ? value : undefined), { edges, isPublic, isResponse, low } = made;
  const name = entry("name", textLine), optional = entry("optional", flag, false);
  const within = entry("within", close, ""), ratio = entry("ratio", close, "");
  if (name.includes("=") || (optional && (isResponse || isPublic))) reject("name");
  if (within && (ratio || !["integer", "continuous", "ordinal"].includes(kind))) reject("within");
  if (ratio && !((edges || kind === "integer") && low > 0)) reject("ratio");
  if (ratio) charge(made.size * 4); // its sentence
  return { ...made, kind, name, optional, within, ratio };
});

/** Text without white space at the ends, as Python has it. */
const stripped = (value) => value.replace(/^[\p{Z}\t-\r\x1c-\x1f\x85]+|[\p{Z}\t-\r\x1c-\x1f\x85]+$/gu, "");

/** Whether a response is missing: null, undefined, NaN or blank text. */
const isMissing = (value) => (value ?? NaN) !== value || !stripped(text(value) ?? "-");

/** The number that a text is, if it is one; integers of any size are exact. */
function numberIn(value) {
  value = stripped(value);
  if (value.length > LONGEST_TEXT || !NUMBER.test(value)) return;
  return /^[+-]?\d+$/.test(value) ? BigInt(value) : /i/i.test(value) ? Infinity : Number(value);
}

/** The nearest whole number, of two the even one. */
function rounded(number) {
  const left = Math.floor(number), rest = number - left;
  return left + (rest > 0.5 || (rest === 0.5 && left % 2));
}

/** The position of a response; with `clip`, numbers outside move to the nearest end. */
export function positionOf(domain, value, clip) {
  const { cyclic, edges, high, isPublic, isResponse, kind, low, name, names, optional, size } = domain, whole = kind === "integer";
  const { middle = low + (high - low) / 2 } = domain;
  const fail = (reason) => {
    throw new InvalidValueError(reason, name);
  };
  if (isResponse) return +!isMissing(value);
  if (isMissing(value)) value = optional ? middle : fail("missing");
  if (names) {
    if (Number.isInteger(value)) value = BigInt(value); // all digits
    if (!/str|bool|big/.test(typeof value)) fail("kind");
    const position = names.indexOf(`${value}`);
    return position < 0 ? fail("name") : position;
  }
  if (text(value)) value = numberIn(value);
  if (whole && !low && high === 1 && value === !!value) value = +value;
  if (!/num|big/.test(typeof value)) fail("kind");
  if (/N|I/.test(value)) fail(value ? "range" : "missing");
  const number = Number(value);
  if (whole && number % 1) fail("whole");
  if (!whole) value = number;
  const nearest = value < low ? low : value > high ? high : value;
  if (nearest !== value && (cyclic || !clip)) fail("range");
  value = Number(nearest);
  if (whole) return value - low;
  if (edges) return cyclic ? (bisect(edges, value) - 1) % size : Math.min(bisect(edges, value), size) - 1;
  if (isPublic) return new BigUint64Array(Float64Array.of(value).buffer)[0];
  const steps = ((value - low) / (high - low)) * (size - 1), left = Math.min(Math.floor(steps), size - 2);
  return left * UNITS + Math.min(Math.max(rounded((steps - left) * UNITS), 0), UNITS);
}

/** A position in words. */
export const label = ({ kind, low, names }, position) => (names ? names[position] : kind === "integer" ? low + position : `bin ${position + 1}`);
