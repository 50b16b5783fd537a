// Domains of attributes: a response to a position, or an error that does not show the response.
//
// Responses that are accepted or clipped take the same steps whatever their size. A missing response
// to an optional attribute takes the position of the middle of the domain, by the same steps.
//
// A domain is an object with
//   name, size  of the attribute, and the number of positions
//   positionOf  the position of a value that is there
//   middle      the value that stands for a missing response
//   stochastic  whether positions are in units of 2^-32, to be rounded at random
//   optional    whether a response can be missing
//   cyclic      whether the values are on a ring; these are not clipped
//   within      which values the survey calls close: at most so far apart, as decimal text
//   ratio       or one larger than the other by at most this part of it

import { LARGEST_NUMBER, double, flag, integer, list, object, reject, text, textLine } from "./canonical.js";
import { MOST_POSITIONS, bisect, range } from "./distributions.js";
import { InvalidValueError } from "./errors.js";
import { UNITS } from "./random_words.js";

const NUMBER = /^[+-]?(inf|infinity|nan|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)$/i;
const DECIMAL = /^(?=.*[1-9])(0|[1-9]\d{0,19})(\.\d{0,19}[1-9])?$/;
const LONGEST_TEXT = 1000;
const MOST_NAMES = 4096;

/** Text without white space at the ends, as Python has it. */
const stripped = (value) => value.replace(/^[\p{Z}\t-\r\x1c-\x1f\x85]+|[\p{Z}\t-\r\x1c-\x1f\x85]+$/gu, "");

/** Whether a response is missing: null, undefined, NaN or blank text. */
export const isMissing = (value) => (value ?? NaN) !== value || !stripped(text(value) ?? "-");

/** The number that a text is, if it is one; integers of any size are exact. */
function parsed(value) {
  value = stripped(value);
  if (value.length > LONGEST_TEXT || !NUMBER.test(value)) return;
  return /^[+-]?\d+$/.test(value) ? BigInt(value) : /i/i.test(value) ? Infinity : Number(value);
}

/** Numbers from low to high. */
function numbers(low, high, cyclic, fail) {
  /** A finite number, also from its text; true and false only if they are values. */
  const number = (value, truth) => {
    if (text(value)) value = parsed(value);
    if (truth && value === !!value) value = +value;
    if (!/num|big/.test(typeof value)) fail("kind");
    if (/N|I/.test(Number(value))) fail(value ? "range" : "missing");
    return value;
  };
  /** The number, or the nearest end if it is clipped. */
  const bounded = (number, clip) => {
    const nearest = number < low ? low : number > high ? high : number;
    if (nearest !== number && (cyclic || !clip)) fail("range");
    return Number(nearest);
  };
  /** A value as a double from low to high. */
  const real = (value, clip) => bounded(Number(number(value)), clip);
  return { low, high, cyclic, middle: low + (high - low) / 2, number, bounded, real };
}

/** Whole numbers from low to high; if these are 0 and 1, also false and true. */
function wholeNumbers(entry, fail) {
  const low = entry("low", integer(-LARGEST_NUMBER, LARGEST_NUMBER - 1));
  const high = entry("high", integer(low + 1, Math.min(low + MOST_POSITIONS - 1, LARGEST_NUMBER))), size = high - low + 1;
  const domain = numbers(low, high, entry("cyclic", flag, false), fail);
  return {
    ...domain,
    size,
    middle: low + (size >> 1),
    positionOf(value, clip) {
      const number = domain.number(value, !low && high === 1);
      if (typeof number === "number" && number % 1) fail("whole");
      return domain.bounded(number, clip) - low;
    },
    label: (position) => low + position,
  };
}

/** Real numbers in bins, or rounded at random to points. */
function continuous(entry, fail) {
  const given = entry("edges", list(double, 3, MOST_NAMES), false);
  if (given) {
    if (given.some((edge, k) => edge <= given[k - 1])) reject("edges");
    return bins(given, given, numbers(given[0], given.at(-1), false, fail));
  }
  const [low, high] = ends(entry), size = entry("points", integer(2, MOST_POSITIONS), 0);
  if (size) return points(size, numbers(low, high, false, fail));
  const count = entry("bins", integer(2, MOST_POSITIONS)), width = (high - low) / count;
  return bins(false, [...range(count).map((k) => k * width + low), high], numbers(low, high, entry("cyclic", flag, false), fail));
}

/**
 * Real numbers in bins: position k holds edges[k] <= v < edges[k + 1], the last one its end.
 *
 * Equal bins have the edges k ((high - low) / bins) + low in floating point, and high.
 */
function bins(given, edges, domain) {
  const size = edges.length - 1;
  return {
    ...domain,
    given,
    edges,
    size,
    positionOf: (value, clip) => Math.min(bisect(edges, domain.real(value, clip)), size) - 1,
  };
}

/**
 * Real numbers, rounded at random to one of the two nearest of `size` evenly spaced points.
 *
 * The position is (v - low) / (high - low) (size - 1) in units of 2^-32; with 2 points it is also
 * the position of a private weight.
 */
function points(size, domain) {
  const { low, high } = domain;
  return {
    ...domain,
    size,
    stochastic: true,
    positionOf(value, clip) {
      const steps = ((domain.real(value, clip) - low) / (high - low)) * (size - 1), left = Math.min(Math.floor(steps), size - 2);
      return left * UNITS + Math.min(Math.max(rounded((steps - left) * UNITS), 0), UNITS);
    },
  };
}

/** The nearest whole number, of two the even one. */
function rounded(number) {
  const left = Math.floor(number), rest = number - left;
  return left + (rest > 0.5 || (rest === 0.5 && left % 2));
}

/** A number; if it is not private, it is sent as it is: the position is the 64 bits of the double. */
function weight(entry, fail) {
  const domain = numbers(...ends(entry), false, fail);
  if (entry("private", flag, false)) return points(2, domain);
  return { ...domain, isPublic: true, positionOf: (value, clip) => new BigUint64Array(Float64Array.of(domain.real(value, clip)).buffer)[0] };
}

/** Names: categories, or levels in order. Whole numbers and truth values may be names. */
function categorical(entry, fail) {
  const names = entry("names", list(textLine, 2, MOST_NAMES)), size = names.length;
  if (new Set(names).size < size) reject("names");
  return {
    names,
    size,
    middle: names[size >> 1],
    positionOf(value) {
      if (Number.isInteger(value)) value = BigInt(value); // all digits
      if (!/str|bool|big/.test(typeof value)) fail("kind");
      const position = names.indexOf(String(value));
      return position < 0 ? fail("name") : position;
    },
    label: (position) => names[position],
  };
}

const ordinal = (entry, fail) => ({ ...categorical(entry, fail), cyclic: entry("cyclic", flag, false) });

/** Whether there is a response to an optional attribute: 0 if it is missing, else 1. */
const response = () => ({ isResponse: true, size: 2 });

const DOMAINS = { __proto__: null, integer: wholeNumbers, continuous, ordinal, categorical, response, weight };

/** The check of the domain of an attribute. */
export const domain = object((entry) => {
  const name = entry("name", textLine), kind = entry("kind", textLine), optional = entry("optional", flag, false);
  const read = DOMAINS[kind] || reject(`kind ${kind} is not supported`);
  const close = (value) => (DECIMAL.test(text(value)) ? value : undefined);
  const fail = (reason) => {
    throw new InvalidValueError(reason, name);
  };
  const made = read(entry, fail), { edges, isPublic, isResponse, low, middle, positionOf } = made;
  const within = entry("within", close, ""), ratio = entry("ratio", close, "");
  if (name.includes("=") || (optional && (isResponse || isPublic))) reject("name");
  if (within && (ratio || !["integer", "continuous", "ordinal"].includes(kind))) reject("within");
  if (ratio && !((edges || kind === "integer") && low > 0)) reject("ratio");
  return {
    ...made,
    name,
    optional,
    within,
    ratio,
    /** The position of a response. */
    position(value, clip) {
      if (isResponse) return +!isMissing(value);
      if (isMissing(value) && optional) value = middle;
      return isMissing(value) ? fail("missing") : positionOf(value, clip);
    },
  };
});

function ends(entry) {
  const low = entry("low", double), high = entry("high", double);
  return low < high && high - low < Infinity ? [low, high] : reject("low");
}
