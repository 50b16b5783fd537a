// Made by build.js from the modules in src/, in which this is easier to read. Do not edit it.

// errors.js
//
// Errors of the device: each message names the place, and shows no response.

/** The base class of all errors that this package raises on purpose; `reason` is one word. */
class MetricLdpError extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

/** A manifest is malformed, too large, another one, or does not keep its guarantee. */
class InvalidManifestError extends MetricLdpError {}

/** A report is outside of its field; no report is sent. */
class CertificateError extends MetricLdpError {}

/**
 * A response is missing, of the wrong type or outside its domain; nothing was randomized.
 *
 * If one value is invalid, `attribute` locates it, and `reason` is one of missing, kind, whole,
 * range and name. The message does not contain the value.
 */
class InvalidValueError extends MetricLdpError {
  constructor(reason, attribute) {
    super(reason, `${attribute}: ${reason}`);
    this.attribute = attribute;
  }
}

// exact.js
//
// Exact comparisons of fractions with powers of e.
//
// A guarantee compares a ratio of integers with e^E for a rational E. e^E is enclosed between two
// fractions, and the enclosure is refined until it decides. This is the only module in which a real
// number meets an integer. A fraction is a pair [n, d] of BigInts with d > 0.

/** Probabilities are integers over this denominator, everywhere. */
const WORD = 1n << 64n;
/** Binary places to which products of ratios are rounded up. */
const PLACES = 256n;

/** Binary digits of a positive integer; none of 0. */
const bitLength = (number) => (number ? number.toString(2).length : 0);

/** A whole number as a fraction. */
const whole = (number) => [BigInt(number), 1n];
const ONE = whole(1);
/**
 * Stands for this ratio and all above it, and for positions that a report distinguishes with
 * certainty. No distance allows it.
 */
const CERTAIN = whole(1n << 2048n);

/** The fraction n 10^places / d. */
const shifted = (n, places, d = 1n) => (places < 0 ? [n, d * 10n ** BigInt(-places)] : [n * 10n ** BigInt(places), d]);

/** The decimal that a double is written as: 0.1 is one tenth, not the nearest binary number. */
function decimalOf(number) {
  const [digits, exponent = 0] = `${number}`.split("e"), [left, right = ""] = digits.split(".");
  return shifted(BigInt(left + right), exponent - right.length);
}

const plus = ([a, b], [c, d]) => [a * d + c * b, b * d];
const minus = (one, [c, d]) => plus(one, [-c, d]);
const times = ([a, b], [c, d]) => [a * c, b * d];
const over = (one, [c, d]) => times(one, [d, c]);
const atMost = ([a, b], [c, d]) => a * d <= c * b;
const smaller = (one, other) => (atMost(one, other) ? one : other);
const larger = (one, other) => (atMost(one, other) ? other : one);

/** a / b, CERTAIN if only b is 0. */
const ratioOf = (a, b) => (b ? [a, b] : a ? CERTAIN : ONE);

/** The larger of a / b and b / a; CERTAIN if just one of them is 0. */
const quotient = (a, b) => (a < b ? ratioOf(b, a) : ratioOf(a, b));

/** The double next to a fraction: integers are rounded once, with a last bit for the remainder. */
function toNumber([n, d]) {
  if (n < 0n) return -toNumber([-n, d]);
  const shift = BigInt(Math.max(bitLength(d) - bitLength(n) + 66, 0)), scaled = n << shift, quotient = scaled / d;
  return Number(quotient | BigInt(quotient * d < scaled)) / 2 ** Number(shift);
}

let bounds, boundsOf;

/** Two fractions with lower <= e^exponent <= upper, close to 2^-precision relative. */
function expBounds([n, d], precision = 256) {
  if (boundsOf === (boundsOf = `${n}/${d} ${precision}`)) return bounds; // many pairs have one distance
  const halvings = bitLength(ceilOf([n, d])) + 8, scale = BigInt(precision + 2 * halvings + 16), one = 1n << scale;
  const halved = ((n << scale) >> BigInt(halvings)) / d;
  // The Taylor series of the halved exponent, which is below 2^-8: the exponent and every term are
  // truncated down. For the upper bound the remainder and two units for each truncation are added.
  let lower = one, terms = 0n;
  for (let term = one; term; lower += term) term = ((term * halved) >> scale) / ++terms;
  let upper = lower + 4n * terms + 4n;
  for (let k = halvings; k--; ) {
    lower = (lower * lower) >> scale;
    upper = ((upper * upper) >> scale) + 1n;
  }
  return (bounds = [[lower, one], [upper, one]]);
}

/**
 * Whether a ratio of 1 or more is at most e^exponent, decided without rounding.
 *
 * e to a rational power other than 0 is irrational, so a higher precision decides. A ratio that
 * 1,024 digits do not decide counts as too large.
 */
function atMostExp(ratio, exponent, precision = 256) {
  if (exponent[0] <= 0n) return !exponent[0] && atMost(ratio, ONE);
  // 2 < e, and a ratio is below 2 to the number of its binary digits.
  if (floorOf(exponent) > bitLength(ratio[0]) - bitLength(ratio[1])) return true;
  const [lower, upper] = expBounds(exponent, precision);
  return atMost(ratio, lower) || (precision < 1024 && !atMost(upper, ratio) && atMostExp(ratio, exponent, 1024));
}

/**
 * The next multiple of 2^-128 from ln value on, for a value of 1 or more.
 *
 * Newton's steps from a double find it, exponentials prove it: the result does not depend on the
 * machine's logarithm.
 */
function logBound(value) {
  let guess = [BigInt(Math.round(logOf(value) * 2 ** 40)), 1n << 40n];
  for (let k = 2; k--; ) {
    const [n, d] = minus(plus(guess, over(value, expBounds(guess)[1])), ONE);
    guess = [n < 0n ? 0n : (n << 192n) / d, 1n << 192n];
  }
  let upper = guess[0] >> 64n;
  const reached = () => atMostExp(value, [upper, 1n << 128n]);
  while (reached()) upper--;
  while (!reached()) upper++;
  return [upper, 1n << 128n];
}

/** The natural logarithm of a fraction of 1 or more, to double precision. */
const logOf = ([n, d]) => ((n - d) * 4n < d ? Math.log1p(toNumber([n - d, d])) : log(n) - log(d));

function log(number) {
  const shift = Math.max(bitLength(number) - 64, 0);
  return Math.log(Number(number >> BigInt(shift))) + shift * Math.LN2;
}

const bounded = (units) => (units < CERTAIN[0] << PLACES ? units : CERTAIN[0] << PLACES);
const timesUnits = (one, other) => bounded(-((-one * other) >> PLACES));

/** A ratio of at least 1 in units of 2^-256, rounded up, at most CERTAIN. */
const upper = ([n, d]) => bounded(ceilOf([n << PLACES, d]));

/** ratio^exponent in units of 2^-256, rounded up, at most CERTAIN. */
function power(ratio, exponent) {
  let result = 1n << PLACES;
  for (; exponent; exponent = Math.floor(exponent / 2)) {
    if (exponent % 2) result = timesUnits(result, ratio);
    ratio = timesUnits(ratio, ratio);
  }
  return result;
}

/** The product of ratios in units of 2^-256, rounded up, at most CERTAIN. */
const product = (ratios) => [ratios.reduce(timesUnits, 1n << PLACES), 1n << PLACES];

/** The smallest integer that is not below a fraction. */
const ceilOf = ([n, d]) => -floorOf([-n, d]);

/** The largest integer that is not above a fraction. */
const floorOf = ([n, d]) => (n < 0n ? -((d - 1n - n) / d) : n / d);

// random_words.js
//
// Random integers from a sequence of uniform 64-bit words.
//
// A report is a function of the manifest, the response and these words. Each word is read once, in
// order. Uniform words give the output distributions that `verify` examines; given words give a
// report that can be repeated in any language. A probability is a BigInt p and stands for p / 2^64.

/** A position that is rounded at random counts in units of 2^-32. */
let UNITS = 2 ** 32; // not const: minifiers would write it out everywhere

/** Uniform words of the browser, in blocks. */
function fromBrowser() {
  let block = [], next = 0;
  return () => {
    if (next === block.length) {
      block = crypto.getRandomValues(new BigUint64Array(64));
      next = 0;
    }
    return block[next++];
  };
}

/**
 * Random integers for one report at a time. `word` returns the next word; given words have no
 * privacy and are for tests only.
 */
function wordsOf(word = fromBrowser()) {
  /** A uniform integer of `count` bits: the top bits of a word. 0 bits read no word. */
  const bits = (count) => (count ? word() >> BigInt(64 - count) : 0n);
  return {
    word,
    bits,
    /** 1 with probability p / 2^64, else 0: one word, compared with p. */
    below: (probability) => +(word() < probability),
    /**
     * A uniform integer below `bound`, by rejection.
     *
     * Integers of as many bits as bound - 1 has are drawn, a word each, until one is below it.
     */
    uniform(bound) {
      let number;
      do number = bits(bitLength(bound - 1n));
      while (number >= bound);
      return number;
    },
    /** Round a position in units of 2^-32 at random and without bias: one word. */
    round: (position) => Math.floor(position / UNITS) + (bits(32) < position % UNITS),
  };
}

// canonical.js
//
// Canonical JSON (RFC 8785), and strict reading of the objects in it.
//
// Equal data have equal text in every language: keys in order, no spaces, no escapes that JSON does
// not require, numbers as JavaScript writes them. Integers of 2^53 and above are text, because not
// every language reads them as numbers.
//
// A check takes a value from JSON and returns what it stands for, or undefined if it is not valid.

const LARGEST_NUMBER = 2 ** 53;
/** Items of all lists of a manifest together, so that it is read in a moment. */
const MOST_ITEMS = 2 ** 19;

let left = 0;

/** Count what takes about as long as to read so many items of a list. */
function charge(items) {
  left -= items;
  if (left < 0) reject("items");
}

/** The data of a JSON text, of which a new count begins. */
function parsed(text) {
  left = MOST_ITEMS;
  try {
    return JSON.parse(text);
  } catch {
    return reject("JSON");
  }
}

function reject(why) {
  throw new InvalidManifestError("manifest", `the manifest is invalid: ${why}`);
}

/**
 * The check of an object: `read` gets a function entry(key, check, absent) that reads a key once.
 *
 * Keys are in order. One that has not been read is rejected, so nothing in a manifest is ignored.
 */
const object = (read) => (data) => {
  if (!data || typeof data !== "object" || Array.isArray(data)) return;
  const rest = new Map(Object.entries(data)), keys = [...rest.keys()];
  const result = read((key, check, absent) => {
    const raw = rest.get(key);
    if (Array.isArray(raw)) charge(raw.length);
    const value = rest.delete(key) ? check(raw) : absent;
    return value ?? reject(key);
  });
  if (rest.size || `${keys}` !== `${keys.sort()}`) reject(`keys ${keys}`);
  return result;
};

/** The check of an object that `kinds` read, by its entry `kind`; any other is rejected by name. */
const oneOf = (kinds, complete, size) =>
  object((entry) => {
    const kind = entry("kind", textLine), read = Object.hasOwn(kinds, kind) ? kinds[kind] : reject(`${kind} is not supported`);
    return complete(read(entry, size), kind, entry);
  });

const list = (check, least, most) => (values) => {
  if (!Array.isArray(values) || values.length < least || values.length > most) return;
  const read = values.map(check);
  return read.includes(undefined) ? undefined : read;
};

const text = (value) => (typeof value === "string" ? value : undefined);

/**
 * A line of text: not blank, and without controls, surrogates, separators of lines and controls of
 * writing direction. No later version of Unicode changes these sets.
 */
const textLine = (value) =>
  text(value) && /\P{Zs}/u.test(value) && !/[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u.test(value) ? value : undefined;

/** A key that is there only if it is true. */
const flag = (value) => value === true || undefined;

const integer = (least, most) => (number) => (Number.isInteger(number) && number >= least && number <= most ? number : undefined);

const double = (number) => (typeof number === "number" && Math.abs(number) <= 1e300 ? number : undefined);

/** 16 hexadecimal digits. */
const probability = (least) => (digits) => {
  const probability = /^[\da-f]{16}$/.test(text(digits)) ? BigInt("0x" + digits) : -1n;
  return probability >= least ? probability : undefined;
};

/** A positive fraction in lowest terms, at most 2^40, as text such as 3/2. */
function ratio(value) {
  charge((text(value) || "").length >> 4);
  if (!/^[1-9]\d{0,1999}(\/[1-9]\d{0,1999})?$/.test(text(value))) return;
  const [n, d = 1n] = value.split("/").map(BigInt);
  return value.endsWith("/1") || gcd(n, d) > 1n || n > d << 40n ? undefined : [n, d];
}

const gcd = (a, b) => (b ? gcd(b, a % b) : a);

// distributions.js
//
// Output distributions of randomizers, defined by integers.
//
// A randomizer maps a private position x in {0, ..., size - 1} to a report, an integer of `bits`
// bits. Its probabilities are rational numbers that follow from a few stored integers, so a privacy
// guarantee is a statement about integers. Each function states, in this order, the probabilities,
// how they are drawn from 64-bit words, and the likelihood ratio of two positions with its proof. A
// stored probability p stands for p / 2^64. Draws read the same number of words for every position,
// except that rejection may repeat a draw with a probability that does not depend on the position.
//
// A distribution is an object with
//   size          positions; those of a group are its cells, flattened
//   outputs, bits a report is one integer below `outputs`, or any integer of `bits` bits
//   draw          one report for a private position
//   ratio         of x < other: the maximum over reports of P(y | x) / P(y | other) and its inverse,
//                 exact or rounded up
//   largestRatio  an upper bound of `ratio` over all pairs of positions
//   invariance    what `ratio` depends on: both positions (NONE), their DIFFERENCE, or only whether
//                 they differ (ALL). The proof then needs fewer pairs.
//   grid          sizes of the grid of which positions are the flattened cells; the difference is
//                 that of these cells
//   rises         whether a ratio that depends on a difference does not fall as the difference grows
//   work          about how many elementary steps the ratios of so many pairs take

const MOST_POSITIONS = 2 ** 20;
/** Bits of a report: 256 kB. */
const MOST_BITS = 2 ** 21;
/** Entries and ends of windows of the matrix mechanism, either way. */
const LARGEST_ENTRY = 2 ** 31;

const NONE = 0;
const DIFFERENCE = 1;
const ALL = 2;

const POSITIONS = integer(2, MOST_POSITIONS);
const POSSIBLE = probability(1n);
const PROBABILITY = probability(0n);

const prod = (numbers) => numbers.reduce((all, number) => all * number, 1);
const highest = (numbers) => numbers.reduce((a, b) => (a < b ? b : a));
const lowest = (numbers) => numbers.reduce((a, b) => (b < a ? b : a));
const range = (count) => [...Array(count).keys()];
const bitsFor = (outcomes) => 32 - Math.clz32(outcomes - 1);

/** The sums of the first numbers, BigInts. */
const accumulate = (numbers, all = 0n) => numbers.map((number) => (all += number));

/** How many numbers of a rising list are at most this one. */
function bisect(numbers, number) {
  let low = 0;
  for (let high = numbers.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (number < numbers[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The integer whose parts of so many bits these are, the lowest first. */
const joined = (parts, bits) =>
  BigInt("0b" + parts.map((part, k) => part.toString(2).padStart(bits ? bits[k] : 1, 0)).reverse().join(""));

/**
 * k-ary randomized response: the true position with probability keep, else a uniform other one.
 *
 * Drawn: one word, compared with keep, decides whether the position stays; an offset from 1 to
 * size - 1, uniform, is drawn in either case and added modulo size if the position does not stay.
 *
 * Ratio: with q = (1 - p) / (size - 1), it is p / q at y = x, q / p at y = x' and 1 elsewhere; so
 * the maximum is the larger of p / q and q / p, for every pair.
 */
function randomizedResponse(entry) {
  const size = entry("size", POSITIONS), keep = entry("keep", POSSIBLE), others = BigInt(size - 1);
  return {
    size,
    invariance: ALL,
    draw(position, words) {
      const moves = 1 - words.below(keep), offset = 1 + Number(words.uniform(others));
      return (position + offset * moves) % size;
    },
    ratio: () => quotient(keep * others, WORD - keep),
  };
}

/**
 * Threshold bits: bit k says whether x <= k, and is flipped with probability flips[k].
 *
 * There are size - 1 bits or more. Bits from size - 1 on are 1 before the flip for every position:
 * the paper sends one of them.
 *
 * Drawn: one word for each bit, compared with its flips[k].
 *
 * Ratio: bits are independent, and x and x' > x differ before the flip in the bits x to x' - 1. A
 * bit that differs contributes (1 - p) / p or the inverse, whichever is larger, for a suitable
 * report; one report is the worst for all bits at once. So the ratio is the product over these
 * bits. Ratios of neighbours multiply to that of any pair.
 */
function threshold(entry) {
  const size = entry("size", POSITIONS), flips = entry("flips", runs(PROBABILITY, MOST_BITS)), bits = flips.length;
  if (bits < size - 1 || bits > size + 1) reject("flips");
  const ratioOfBit = (flip) => upper(quotient(WORD - flip, flip)), equal = new Set(flips).size < 2;
  return {
    size,
    bits,
    invariance: equal ? DIFFERENCE : NONE,
    rises: true,
    work: (pairs) => (equal ? pairs : 8 * pairs * bits),
    draw: (position, words) => joined(flips.map((flip, k) => words.below(flip) ^ (position <= k))),
    ratio: (x, other) => product(equal ? [power(ratioOfBit(flips[0]), other - x)] : flips.slice(x, other).map(ratioOfBit)),
  };
}

/**
 * Unary encoding: bit k is 1 with probability own[k] if x = k, else with other[k].
 *
 * Drawn: one word for each bit, compared with other[k]; then one word, compared with own[x], that
 * replaces bit x.
 *
 * Ratio: bits are independent, and between x and x' only the bits x and x' differ in distribution.
 * With p = own, q = other, the ratio of x to x' is max(p_x / q_x, (1 - p_x) / (1 - q_x)) times
 * max(q_x' / p_x', (1 - q_x') / (1 - p_x')), and one report attains both.
 */
function unary(entry) {
  const [owns, others] = ["own", "other"].map((key) => entry(key, runs(PROBABILITY, MOST_POSITIONS))), size = owns.length;
  if (size < 2 || others.length !== size) reject("own");
  /** The largest contribution of bit k to the ratio for its value (0), and against it (1). */
  const known = {};
  const bitRatios = owns.map((own, k) => {
    const bound = (p, q) => larger(ratioOf(p, q), ratioOf(WORD - p, WORD - q)), other = others[k];
    return (known[`${own} ${other}`] ??= [bound(own, other), bound(other, own)]);
  });
  const ratios = Object.values(known);
  charge(ratios.length << 4); // their ratios
  const both = (up, down) => times(up[0], down[1]);
  return {
    size,
    bits: size,
    invariance: new Set(ratios.map(String)).size < 2 ? ALL : NONE,
    draw(position, words) {
      const report = others.map(words.below);
      report[position] = words.below(owns[position]);
      return joined(report);
    },
    ratio: (x, other) => larger(both(bitRatios[x], bitRatios[other]), both(bitRatios[other], bitRatios[x])),
    largestRatio: () => times(...[0, 1].map((way) => ratios.map((ratio) => ratio[way]).reduce(larger))),
  };
}

/**
 * Two-sided geometric noise, clipped: y = min(max(x + noise, 0), size - 1).
 *
 * The noise is 0 with probability zero, else a fair sign times 1 + G. The binary digits of G are
 * independent: digit j is 1 with probability digits[j], for j < J. Above them G grows by 2^J as
 * long as a draw with probability block succeeds. No tail is tabulated, so no probability is
 * rounded to zero.
 *
 * Drawn: a word for each digit; words for the blocks until one fails or the noise leaves the
 * domain from any position (noise of size or more is clipped from every position); one word for
 * the sign; one word for zero. The words do not depend on the position. Their number depends on
 * the noise, so it must stay on the device: with the report it would tell about the position.
 *
 * Ratio: adding noise that differs by d moves along d steps of the noise's distribution, and
 * clipping is applied to what was drawn, so it cannot raise a ratio. The ratio is at most
 * step^|x - x'|, with step the largest ratio, either way, of the probabilities of neighbouring
 * values of the noise. From g + 1 to g + 2, with g's lowest 1-digits carried into digit j, it is
 * the product of p_i / (1 - p_i) over i < j and (1 - p_j) / p_j; for a carry into the blocks the
 * last factor is 1 / block. From 0 to 1 it is 2 zero / ((1 - zero) (1 - block) prod (1 - p_i)).
 */
function geometric(entry, most = MOST_POSITIONS) {
  charge(32); // its ratio
  const size = entry("size", integer(2, most)), zero = entry("zero", POSSIBLE), block = entry("block", POSSIBLE);
  const digits = entry("digits", list(PROBABILITY, 0, 63)), length = 2 ** digits.length;
  if (block > WORD >> 1n) reject("block"); // a draw could read many words
  let step = ONE, ones = 1n, zeros = 1n;
  for (const digit of digits) {
    step = larger(step, quotient(ones * (WORD - digit), zeros * digit));
    ones *= digit;
    zeros *= WORD - digit;
  }
  step = larger(step, quotient(ones * WORD, zeros * block));
  step = larger(step, quotient(2n * zero * WORD ** BigInt(digits.length + 1), (WORD - zero) * zeros * (WORD - block)));
  const unit = upper(step), upperRatio = (steps) => power(unit, steps);
  return {
    size,
    invariance: DIFFERENCE,
    rises: true,
    draw(position, words) {
      let magnitude = 1; // beyond 2^53, where numbers are rounded, every position is clipped
      digits.forEach((digit, j) => (magnitude += words.below(digit) * 2 ** j));
      for (let k = 0; k * length <= size && words.below(block); k++) magnitude += length;
      const sign = 1 - 2 * Number(words.bits(1)), noise = magnitude * sign * (1 - words.below(zero));
      return Math.min(Math.max(position + noise, 0), size - 1);
    },
    ratio: (x, other) => product([upperRatio(other - x)]),
    /** The ratio of positions so many steps apart, in units of 2^-256. */
    upperRatio,
  };
}

/**
 * The position with probability keep, or end at the two ends; else with geometric noise.
 *
 * It is the second randomization of memoised geometric noise.
 *
 * Drawn: one word, compared with keep or end; then clipped geometric noise, in either case.
 *
 * Of memoised reports the first randomization gives the guarantee, so there is no ratio.
 */
function lazyGeometric(entry) {
  const keep = entry("keep", PROBABILITY), end = entry("end", PROBABILITY), { size, draw } = geometric(entry);
  return {
    size,
    draw(position, words) {
      const stays = words.below([end, keep][Math.sign(position % (size - 1))]);
      return [draw(position, words), position][stays];
    },
  };
}

/**
 * The matrix mechanism: integer rows of the position, each with clipped geometric noise.
 *
 * Row k reports y_k = clip(a_k(x) + noise_k), an integer from low_k to low_k + size_k - 1, counted
 * from low_k. All rows are independent.
 *
 * Drawn: the geometric noise of each row in turn.
 *
 * Ratio: rows are independent, so the ratio is at most the product over rows of the row's own,
 * step_k^|a_k(x) - a_k(x')|.
 */
function matrix(entry) {
  const readRow = (row) => {
    const low = row("low", integer(-LARGEST_ENTRY, LARGEST_ENTRY)), noise = geometric(row, 2 ** 32), { size } = noise;
    return { ...noise, low, bits: bitsFor(size), entries: row("entries", runs(integer(low, low + size - 1), 4096)) };
  };
  const rows = entry("rows", list(object(readRow), 1, 2 ** 14)), size = rows[0].entries.length, bits = rows.map((row) => row.bits);
  if (size < 2 || rows.some(({ entries }) => entries.length !== size)) reject("rows");
  const productOf = (apart) => product(rows.map((row) => (row[apart(row.entries)] ??= row.upperRatio(apart(row.entries)))));
  return {
    size,
    bits: bits.reduce((a, b) => a + b),
    work(pairs) {
      const powers = rows.map(({ entries }) => {
        const reach = highest(entries) - lowest(entries), different = new Set(entries).size ** 2 >> 1;
        return Math.min(pairs, reach, different) * bitsFor(reach + 1);
      });
      return 2 * pairs * rows.length + 16 * powers.reduce((a, b) => a + b);
    },
    draw: (position, words) => joined(rows.map(({ entries, low, draw }) => draw(entries[position] - low, words)), bits),
    ratio: (x, other) => productOf((entries) => Math.abs(entries[x] - entries[other])),
    largestRatio: () => productOf((entries) => highest(entries) - lowest(entries)),
  };
}

/**
 * Two randomizations: the first is drawn once for each value, the second for each report.
 *
 * The device remembers the output of the first for each position. P(y | x) is the sum over z of
 * P_first(z | x) P_second(y | z).
 *
 * Drawn: `first`, from the position; then `second`, from its output.
 *
 * Ratio: all reports of one position are functions of one output of the first and of independent
 * words, so for all of them together the ratio is at most that of the first, which is stated here.
 */
function memoised(entry) {
  const first = entry("first", distribution(FIRST)), second = entry("second", distribution(SECOND)), { outputs } = second;
  if (second.size !== first.outputs) reject("second");
  return { ...first, first, second, outputs, bits: bitsFor(outputs), draw: (position, words) => second.draw(first.draw(position, words), words) };
}

/**
 * Any randomizer as a table: report y of position x has the probability weights[x][y].
 *
 * The weights of each position add up to 2^64 exactly.
 *
 * Drawn: one word; the report is the first whose cumulative weight is above the word.
 *
 * Ratio: the maximum over reports of weights[x][y] / weights[x'][y] and its inverse. Logarithms in
 * floating point select the reports that can attain the maximum, integers decide among them.
 */
function table(entry) {
  return tableOf(entry("weights", list(list(PROBABILITY, 2, MOST_POSITIONS), 2, 4096)));
}

/** The table of these weights, if all rows are distributions on the same reports. */
function tableOf(weights) {
  const outputs = weights[0].length, cumulative = [], logs = [];
  if (weights.some((row) => row.length !== outputs || lowest(row) < 0n || accumulate(row).at(-1) !== WORD)) reject("weights");
  // The logarithm of 0 is below all others, which are from 0 to 45.
  const logsOf = (x) => (logs[x] ??= weights[x].map((weight) => (weight ? Math.log(Number(weight)) : -100)));
  return {
    size: weights.length,
    outputs,
    work: (pairs) => pairs * outputs,
    draw: (position, words) => bisect((cumulative[position] ??= accumulate(weights[position])), words.word()),
    ratio(x, other) {
      const there = logsOf(other), apart = logsOf(x).map((log, y) => Math.abs(log - there[y]));
      const least = highest(apart) - 1e-9; // the logarithms are nearer than this
      return apart.reduce((ratio, gap, y) => (gap < least ? ratio : larger(ratio, quotient(weights[x][y], weights[other][y]))), ONE);
    },
    largestRatio() {
      const columns = range(outputs).map((y) => weights.map((row) => row[y]));
      return columns.map((column) => quotient(highest(column), lowest(column))).reduce(larger);
    },
  };
}

/** The check of a distribution of one of these kinds. */
const distribution = (kinds) =>
  oneOf(kinds, (made, kind) => {
    const { size, outputs = size } = made;
    return { outputs, bits: bitsFor(outputs), invariance: NONE, work: (pairs) => pairs, grid: [size], largestRatio: () => made.ratio(0, size - 1), ...made, kind };
  });

/** The check of runs [value, count] of different neighbours: all values, at most so many. */
function runs(check, most) {
  return (data) => {
    const values = [];
    let before;
    const readRun = list((part) => part, 2, 2);
    const all = list((run) => {
      const [part, count] = readRun(run) || [], value = part === before ? undefined : check(part);
      before = part;
      if (value === undefined || !integer(1, most - values.length)(count)) return;
      charge(count >> 3);
      for (let k = count; k--; ) values.push(value);
      return true;
    }, 1, most)(data);
    return all && values;
  };
}

const BOTH = { "randomized-response": randomizedResponse };
/** The two randomizations of a memoised response. */
const FIRST = { ...BOTH, geometric, table };
const SECOND = { ...BOTH, "lazy-geometric": lazyGeometric };
/** Distributions of a field by kind; `levels` adds two. */
const SUPPORTED = { ...FIRST, threshold, unary, matrix, memoised };

// levels.js
//
// Distributions whose probabilities depend on a depth: mixtures of extreme points, additive noise.
//
// A shape assigns a depth, a whole number, to each position. Its level at depth 0 is an integer
// top; the level below t is t fall / 2^64, rounded up. So levels k depths apart have a ratio of at
// most (2^64 / fall)^k, and no level is 0.

const DEEPEST = 2 ** 14;
const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const BASE = 62;

/**
 * A mixture of shapes: report y of position x has the level of shape y at its depth at x.
 *
 * One more report has what the levels of a position lack of 2^64. The weights make a table, which is
 * drawn and compared as every table.
 */
function extremal(entry) {
  const shapes = readShapes(entry, 4096), size = shapes[0].length;
  if (size > 4096) reject("depths");
  return tableOf(range(size).map((x) => {
    const row = shapes.map((levels) => levels[x]);
    return [...row, WORD - accumulate(row).at(-1)];
  }));
}

/**
 * Noise added on a ring, or on a torus for several attributes, from one of J patterns.
 *
 * Positions are cells of a grid with `sizes`, flattened, the last attribute fastest; a cell lies
 * at the place sum_d x_d s_d of a ring of n places, with s_d the product of `lengths` after d.
 * Pattern j, of J patterns, is a shape of n depths. The report is j n + (place + d) mod n with
 * probability 1 / J times the level of pattern j at d over the sum of its levels. J is a power of
 * two.
 *
 * Drawn: j from the top bits of one word, none if J = 1; d by a uniform integer below the sum of
 * the levels, compared with cumulative sums.
 *
 * Ratio: j does not depend on the position. Given j, the reports of places s and s' have the
 * levels at d and at d + s - s' for some d. So the ratio is the maximum over patterns and d of the
 * ratio of the levels at d and at d + s - s' mod n; it depends on the difference of places alone.
 */
function additive(entry) {
  const [sizes, lengths] = ["sizes", "lengths"].map((key) => entry(key, list(integer(2, MOST_POSITIONS), 1, 8)));
  const patterns = readShapes(entry, 1024), n = prod(lengths), count = patterns.length, outputs = count * n;
  const cumulative = patterns.map((levels) => accumulate(levels));
  if (sizes.length !== lengths.length || sizes.some((size, d) => size > lengths[d]) || n !== patterns[0].length || count & (count - 1))
    reject("lengths");
  if (cumulative.some((sums) => sums.at(-1) > WORD)) reject("tops");
  /** The place of a cell. */
  const place = (position) =>
    sizes.reduceRight(([place, stride, rest], size, d) => [place + (rest % size) * stride, stride * lengths[d], Math.floor(rest / size)], [0, 1, position])[0];
  return {
    size: prod(sizes),
    grid: sizes,
    outputs,
    work: (pairs) => 2 * pairs * outputs,
    invariance: DIFFERENCE,
    draw(position, words) {
      const j = Number(words.bits(bitsFor(count))), sums = cumulative[j], d = bisect(sums, words.uniform(sums.at(-1)));
      return j * n + ((place(position) + d) % n);
    },
    ratio(x, other) {
      const apart = place(other) - place(x);
      let most = [1n, 1n];
      for (const levels of patterns)
        levels.forEach((level, d) => {
          const next = levels[(d + apart) % n], pair = level < next ? [next, level] : [level, next];
          if (pair[0] * most[1] > most[0] * pair[1]) most = pair;
        });
      return most;
    },
    largestRatio: () => patterns.map((levels) => quotient(highest(levels), lowest(levels))).reduce(larger),
  };
}

/** The levels at each place of shapes of equal length, each with a depth 0. */
function readShapes(entry, most) {
  const shapes = entry("depths", list(readDepths, 1, most)), count = shapes.length, { length } = shapes[0];
  const tops = entry("tops", list(probability(1n), count, count)), fall = entry("fall", probability(1n));
  if (shapes.some((shape) => shape.length !== length || lowest(shape))) reject("depths");
  return shapes.map((shape, k) => {
    const levels = [tops[k]];
    for (const deepest = highest(shape); levels.length <= deepest; ) levels.push((levels.at(-1) * fall + WORD - 1n) >> 64n);
    return shape.map((depth) => levels[depth]);
  });
}

/** Depths in their shortest form: a digit for each if all are below 62; with ":" in front, two; else a list. */
function readDepths(data) {
  const pairs = data?.[0] === ":";
  charge(data?.length >> 1);
  let depths = data;
  if (typeof data === "string") {
    const digits = [...data.slice(+pairs)].map((digit) => DIGITS.indexOf(digit));
    if (digits.includes(-1)) return;
    depths = pairs ? digits.flatMap((digit, at) => (at % 2 ? BASE * digits[at - 1] + digit : digits.length % 2 ? -1 : [])) : digits;
  }
  const read = list(integer(0, DEEPEST), 2, Infinity)(depths), deepest = read ? highest(read) : NaN;
  charge(deepest || 0);
  return deepest >= (depths === data ? BASE * BASE : pairs ? BASE : 0) ? read : undefined;
}

SUPPORTED.additive = additive;
SUPPORTED.extremal = FIRST.extremal = extremal;

// metrics.js
//
// Metrics on positions: what a field guarantees, and the pairs of positions that prove it.
//
// E(x, x') bounds the logarithm of the likelihood ratio of x and x'. Likelihood ratios multiply
// along a path of positions as distances add, so it is enough to examine *generating* pairs: those
// whose distance is not the sum of the distances of two parts of a path. All distances are fractions.
//
// A metric is an object with
//   distance  E(x, x'), or an upper bound of it
//   largest   the largest distance of two positions, or an upper bound of it
//   groups    the generating pairs x < x' by their limit, see `limitOf`: `pairs` are all of a group
//             if `every`, else one for each difference of cells; `widest` has the largest difference
//             of positions
//   grid      the sizes of the grid of which positions are the flattened cells, if it is one

/** Generating pairs that a manifest lists. */
const MOST_PAIRS = 2 ** 16;
/** Steps in which all shortest paths are computed; longer ones are bounded. */
const MOST_STEPS_OF_PATHS = 2 ** 19;

/** The largest likelihood ratio of a pair: e^epsilon, or 1 + epsilon if `linear`. */
function limitOf(epsilon, linear) {
  const most = plus(epsilon, ONE);
  return {
    epsilon,
    linear,
    allows: (ratio) => !atMost(CERTAIN, ratio) && (linear ? atMost(ratio, most) : atMostExp(ratio, epsilon)),
    /** The largest privacy loss, the logarithm of the ratio. */
    allowed: () => (linear ? logOf(most) : toNumber(epsilon)),
  };
}

/** Whether a limit is smaller than another one; only the smallest limit of a metric can be linear. */
const stricter = (limit, other) => (limit.linear ? !other.linear : !other.linear && !atMost(other.epsilon, limit.epsilon));

/** The first of some groups with the smallest limit. */
const strictest = (groups) => groups.reduce((best, group) => (stricter(group.limit, best.limit) ? group : best));

/**
 * E(x, x') = epsilon for any two positions: plain local differential privacy.
 *
 * A value that is rounded at random has a mixture of the distributions of two points, which has no
 * larger ratios. So points keep the metric itself.
 */
function uniform(entry, size) {
  const epsilon = entry("epsilon", ratio);
  return {
    distance: (x, other) => (x === other ? whole(0) : epsilon),
    largest: epsilon,
    groups: () => [{
      limit: limitOf(epsilon),
      *pairs(every) {
        for (let x = 0; x < (every ? size : 1); x++) for (let other = x + 1; other < size; other++) yield [x, other];
      },
      widest: [0, size - 1],
    }],
  };
}

/**
 * E = epsilon ceil(d / width), at most `cap`, for positions d apart along a line or a ring.
 *
 * With width 1 it is epsilon per step; else it is epsilon for all positions at most `width` apart,
 * twice that up to twice as far, and so on. On a ring d = min(|x - x'|, size - |x - x'|). The cap
 * is at least epsilon. E is a metric, as rounding up a sum gives at most the sum of the parts
 * rounded up, and so is min(E, cap).
 *
 * Generating differences: d is the sum of two others with the same total distance except for
 * d <= width; d = floor(k width) for k with a smaller fractional part of k width than all before;
 * and all d whose distance is the cap.
 */
function line(entry, size) {
  const epsilon = entry("epsilon", ratio), cap = entry("cap", ratio, false), ring = entry("ring", flag, false);
  const width = entry("width", (text) => (text === "1" ? undefined : ratio(text)), ONE);
  if (!atMost(ONE, width) || (cap && !atMost(epsilon, cap))) reject("width");
  const [n, d] = width, many = (BigInt(size) * d) / n;
  charge(Number(many < d ? many : d) * (1 + (bitLength(d) >> 7)));
  return lineOf(size, epsilon, width, cap, ring);
}

/** `linear`: whether neighbours keep a ratio of 1 + epsilon, see `betweenPoints`. */
function lineOf(size, epsilon, width, cap, ring, linear) {
  const widest = ring ? size >> 1 : size - 1, steps = width === ONE;
  /** The distance of positions that differ by so much, a fraction. */
  const at = (difference) => {
    if (ring) difference = smaller(difference, minus(whole(size), difference));
    const far = times(epsilon, [ceilOf(over(difference, width)), 1n]);
    return cap ? smaller(far, cap) : far;
  };
  const distance = (x, other) => at(whole(Math.abs(x - other)));
  /** The generating differences in rising order, in ranges of equal distance. */
  const ranges = () => {
    const [n, d] = width, end = BigInt(widest), most = cap ? floorOf(over(cap, epsilon)) : end;
    const parts = [[1n, n / d < end ? n / d : end]];
    let least = n % d;
    for (let k = 2n; k <= most && least && (k * n) / d <= end; k++)
      if ((k * n) % d < least) {
        least = (k * n) % d;
        parts.push([(k * n) / d, (k * n) / d]);
      }
    if (cap) parts.push([(n * most) / d + 1n, end]);
    return parts.map((part) => part.map(Number)).filter(([first, last]) => first <= last);
  };
  return {
    epsilon,
    ring,
    /** Whether distances are proportional to differences, up to the cap. */
    steps,
    at,
    distance,
    largest: distance(0, widest),
    groups: () => ranges().map(([first, last]) => ({
      limit: limitOf(distance(0, first), linear && first === 1),
      *pairs(every) {
        for (let d = first; d <= last; d++) {
          for (let x = 0; x < (every ? size - d : 1); x++) yield [x, x + d];
          if (ring && 2 * d < size) for (let x = 0; x < (every ? d : 1); x++) yield [x, x + size - d];
        }
      },
      widest: [0, ring ? size - first : last],
    })),
    /**
     * The metric on points such that values rounded to them at random keep this one.
     *
     * Per step: with p and p' the probabilities of a report from neighbouring points, a value
     * between them has (1 - t) p + t p'. If p' <= (1 + e) p, its logarithm changes by at most e
     * for each unit of t. So a ratio of 1 + e between neighbours keeps e per step between values.
     * Within a width: values at most that far apart are rounded to points at most one step more
     * apart.
     */
    betweenPoints: () => lineOf(size, epsilon, steps ? width : [ceilOf(width) + 1n, 1n], cap, ring, steps),
  };
}

/** E is the length of the shortest path over listed pairs; lengths are multiples of `step`. */
function graph(entry, size) {
  const step = entry("step", ratio), pair = list(integer(0, size - 1), 2, 2), path = range(size - 1).map((x) => [x, x + 1]);
  const pairs = entry("pairs", list((data) => (pair(data)?.[0] < data?.[1] ? data : undefined), 1, MOST_PAIRS), path);
  const lengths = entry("lengths", list(length, pairs.length, pairs.length)), far = distances(step, lengths);
  const edges = range(size).map(() => []);
  pairs.forEach(([x, other], k) => {
    edges[x].push([other, lengths[k]]);
    edges[other].push([x, lengths[k]]);
  });
  /** Lengths from position 0, if the pairs are all neighbours. */
  const sums = pairs === path && accumulate([0n, ...lengths]), between = (x, other) => (x < other ? sums[other] - sums[x] : sums[x] - sums[other]);
  /** Lengths of shortest paths (Dijkstra's algorithm), undefined for positions without a path. */
  const distancesFrom = (start) => {
    if (sums) return range(size).map((x) => between(start, x));
    const shortest = Array(size).fill(), heap = [];
    push(heap, [0n, start]);
    while (heap[0]) {
      const [length, x] = pop(heap);
      if (shortest[x] === undefined) {
        shortest[x] = length;
        for (const [other, more] of edges[x]) if (shortest[other] === undefined) push(heap, [length + more, other]);
      }
    }
    return shortest;
  };
  if (new Set(pairs.map(String)).size < pairs.length || (pairs !== path && `${pairs}` === `${path}`) || distancesFrom(0).includes(undefined)) reject("pairs");
  /** All distances, if there are few enough pairs. */
  const few = !sums && size * pairs.length <= MOST_STEPS_OF_PATHS, farthest = (start) => far(highest(distancesFrom(start)));
  let known, most;
  const all = () => (known ??= range(size).map(distancesFrom));
  // Over the middle position any two are at most twice its largest distance apart.
  const largest = () => (most ??= sums ? far(sums.at(-1)) : few ? far(highest(all().map(highest))) : times(whole(2), farthest(size >> 1)));
  const complete = range(size).filter((x) => edges[x].length === size - 1), sensitive = new Set(complete);
  return {
    distance: (x, other) => (sums ? far(between(x, other)) : few ? far(all()[x][other]) : largest()),
    get largest() {
      return largest();
    },
    /** Whether the pairs are all neighbours, so that distances rise along the positions. */
    isLine: !!sums,
    groups() {
      const groups = [];
      pairs.forEach((pair, k) => {
        if (lengths[k] !== lengths[k - 1]) {
          const members = [];
          groups.push({ members, limit: limitOf(far(lengths[k])), pairs: () => members, widest: pair });
        }
        const group = groups.at(-1), [x, other] = group.widest;
        group.members.push(pair);
        if (pair[1] - pair[0] > other - x) group.widest = pair;
      });
      return groups;
    },
    /** The largest distance from a position. */
    farthest,
    /** Positions at the smallest distance of all others, if all pairs contain one of them. */
    sensitive: new Set(lengths).size < 2 && complete.length < size && pairs.every((pair) => pair.some((x) => sensitive.has(x))) ? complete : [],
  };
}

/** Adds an entry to a binary heap, a list with the entry of the smallest length first. */
function push(heap, entry) {
  let at = heap.length;
  for (; at && entry[0] < heap[(at - 1) >> 1][0]; at = (at - 1) >> 1) heap[at] = heap[(at - 1) >> 1];
  heap[at] = entry;
}

/** Removes the first entry of a binary heap. */
function pop(heap) {
  const [first] = heap, last = heap.pop(), end = heap.length;
  let at = 0;
  for (let next; (next = 2 * at + 1) < end; at = next) {
    if (next + 1 < end && heap[next + 1][0] < heap[next][0]) next++;
    if (heap[next][0] >= last[0]) break;
    heap[at] = heap[next];
  }
  if (end) heap[at] = last;
  return first;
}

/** A positive integer, as text from 2^53 on. */
function length(number) {
  const digits = /^[1-9]\d{15,1999}$/.test(text(number)) && BigInt(number);
  if (digits >= LARGEST_NUMBER) return digits;
  return integer(1, LARGEST_NUMBER - 1)(number) && BigInt(number);
}

/** The distance of a length; none is above 2^40. */
function distances(step, lengths) {
  const distance = (length) => times(step, [length, 1n]);
  return atMost(distance(highest(lengths)), whole(2 ** 40)) ? distance : reject("lengths");
}

/**
 * E on the cells of a grid: the length of the shortest path over listed steps.
 *
 * A step moves by a number of positions along each attribute, up or down. Cells are flattened, the
 * last attribute fastest. Paths are monotone along each attribute.
 */
function grid(entry, size) {
  const step = entry("step", ratio), sizes = entry("sizes", list(integer(2, size), 2, 8)), parts = sizes.length + 1;
  const moves = entry("steps", list(list((value) => value, parts, parts), parts - 1, MOST_PAIRS));
  const lengths = moves.map((move) => length(move.pop()) || reject("steps")), far = distances(step, lengths);
  for (const move of moves) charge(4 << move.filter(Number).length); // in all directions
  const different = new Set(moves.map(String)), valid = (part, d) => integer(0, sizes[d] - 1)(part) !== undefined;
  if (
    !moves.every((move) => move.some(Number) && move.every(valid)) || different.size < moves.length || prod(sizes) !== size ||
    !sizes.every((_, d) => different.has(`${sizes.map((_, k) => +(k === d))}`)) || size * moves.length > 32 * MOST_STEPS_OF_PATHS
  )
    reject("steps");
  /** The position of a cell, and the cells at all positions. */
  const flat = (cell) => cell.reduce((all, x, d) => all * sizes[d] + x, 0);
  const cells = range(size).map((x) => sizes.map((_, d) => Math.floor(x / prod(sizes.slice(d + 1))) % sizes[d]));
  /** The shortest path for each number of positions along each attribute. */
  const shortest = [0n];
  cells.forEach((cell, x) => moves.forEach((move, k) => {
    const length = move.every((part, d) => part <= cell[d]) && shortest[x - flat(move)] + lengths[k];
    if (length && !(shortest[x] <= length)) shortest[x] = length;
  }));
  return {
    grid: sizes,
    distance: (x, other) => far(shortest[flat(cells[x].map((at, d) => Math.abs(at - cells[other][d])))]),
    largest: far(highest(shortest)),
    groups: () => moves.map((move, k) => ({
      limit: limitOf(far(lengths[k])),
      *pairs(every) {
        // The step in all directions, of two opposite ones the first.
        const ways = move.reduce((some, part) => some.flatMap((way) => (part ? [[...way, part], [...way, -part]] : [[...way, 0]])), [[]]);
        for (const way of ways.slice(0, (ways.length + 1) / 2))
          for (let x = 0, y = flat(way); y < size; x++, y++)
            if (cells[y].every((at, d) => at - cells[x][d] === way[d])) {
              yield [x, y];
              if (!every) break;
            }
      },
      widest: [0, flat(move)],
    })),
  };
}

/** The check of a metric on so many positions. */
const metric = (size) => oneOf({ uniform, line, graph, grid }, (made, kind) => ({ ...made, kind }), size);

// values.js
//
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
const domain = oneOf(DOMAINS, (made, kind, entry) => {
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
function positionOf(domain, value, clip) {
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
const label = ({ kind, low, names }, position) => (names ? names[position] : kind === "integer" ? low + position : `bin ${position + 1}`);

// manifest.js
//
// Manifests: all that a device needs of a survey, as one line of canonical JSON.
//
// A manifest lists the fields of a report. A field has the domains of one attribute, or of several
// that are randomized jointly, the metric that it guarantees and the output distribution that draws
// it, as integers. The fingerprint of a survey is the SHA-256 of its manifest, so an app that states
// the fingerprint accepts no other. A manifest has no text about the guarantee: `guarantee` writes
// it from the numbers.

const FORMAT = 1;
const LONGEST_MANIFEST = 2 ** 23;
const MOST_ATTRIBUTES = 1000;

/** One part of a report; a public weight has no metric and no distribution. */
const field = object((entry) => {
  const domains = entry("attributes", list(domain, 1, 8)), [{ isPublic, isResponse, stochastic }, ...others] = domains;
  const name = domains.map(({ name }) => name).join("+") + (isResponse ? "=response" : "");
  if (isPublic && !others[0]) return { domains, name, bits: 64 };
  const size = prod(domains.map(({ size }) => size)), distributed = entry("distribution", distribution(SUPPORTED)), guaranteed = entry("metric", metric(size));
  const special = ({ isPublic, isResponse, optional, stochastic }) => isPublic || isResponse || optional || stochastic;
  if (distributed.size !== size || (others[0] && domains.some(special)) || !fits(guaranteed, domains)) reject("size");
  /** `stochastic`: whether positions are rounded at random. */
  return { domains, name, stochastic, bits: distributed.bits, distribution: distributed, metric: guaranteed };
});

/**
 * Whether a metric on positions is one on the values of these attributes.
 *
 * `betweenPoints` and the sentences about the guarantee rely on it.
 */
function fits({ at, grid, kind, ring }, [{ cyclic, size, stochastic }, ...others]) {
  if (kind === "uniform") return true;
  if (grid || others[0]) return others[0] && `${grid}` === `${[size, ...others.map(({ size }) => size)]}`;
  return at ? ring === !!cyclic : !stochastic;
}

/** Read a manifest; whatever is unknown, missing or too large throws an error. */
function parse(text, fingerprint) {
  // Code points are counted, of which each has one or two units.
  if ([...text.slice(0, 2 * LONGEST_MANIFEST + 1)].length > LONGEST_MANIFEST) reject("length");
  const data = parsed(text), read = object((entry) => entry("metricldp", integer(FORMAT, FORMAT)) && entry("fields", list(field, 1, 2 * MOST_ATTRIBUTES)));
  const fields = read(data) || reject("JSON"), domains = fields.flatMap(({ domains }) => domains);
  const namesOf = (test) => domains.filter(test).map(({ name }) => name), names = namesOf(({ isResponse }) => !isResponse);
  const optional = namesOf(({ optional }) => optional).sort(), responses = namesOf(({ isResponse }) => isResponse).sort();
  const bits = fields.reduce((all, { bits }) => all + bits, 0);
  const different = (list) => new Set(list).size === list.length;
  if (!different(names) || !different(fields.map(({ name }) => name)) || optional.join("=") !== responses.join("=")) reject("names");
  if (names.length > MOST_ATTRIBUTES || fields.every(({ distribution }) => !distribution) || bits > MOST_BITS) reject("fields");
  if (JSON.stringify(data) !== text) reject("form");
  return { fields, fingerprint, bits, names, optional: optional[0] };
}

// report.js
//
// Reports as bytes: a header, then the fields, bit after bit.
//
// The header has the version of the format, one byte, and the first 16 bytes of the fingerprint. The
// fields follow in the order of the manifest, each with its lowest bit first, and zeros up to a
// whole byte.

const ofHex = (digits) => Uint8Array.from(digits.match(/../g), (pair) => parseInt(pair, 16));
const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, 0)).join("");

/** The bytes of a report from the integers of its fields, in hexadecimal digits. */
function pack({ bits, fields, fingerprint }, parts) {
  const content = joined(parts, fields.map(({ bits }) => bits)).toString(16).padStart(2 * Math.ceil(bits / 8), 0);
  return toHex([FORMAT]) + fingerprint.slice(0, 32) + toHex(ofHex(content).reverse());
}

// verify.js
//
// The proof: the likelihood ratios of the integers in a manifest, compared with its metrics.
//
// For every generating pair of a metric, the largest likelihood ratio of any report is a fraction of
// the very integers that a device compares random words with, or that fraction rounded up. It is
// compared with e^E without rounding. All other pairs follow, because ratios multiply along a path
// as distances add. Fields are drawn from independent words, so the distances of fields add up.
// Nothing that a collector does to reports can undo the guarantee.

/** Elementary steps of a proof on a device; manifests that need more are rejected. */
const MOST_STEPS = 2 ** 23;
/** Steps of a pair, besides those for its ratio. */
const PAIR = 256;
/** Losses that differ by no more are equal up to rounding. */
const SAME = 1e-12;

/**
 * Compare all likelihood ratios of a manifest with its metrics.
 *
 * If the ratio is the same for all pairs, a pair at the smallest distance is enough. If it depends
 * on the difference of cells alone, as the metric does, one pair for each difference is; if it also
 * rises with it, the widest pair is. The ratio of the highest and the lowest probability is a bound
 * for all pairs: if the largest limit allows it, all pairs with that limit hold, and the first one
 * is listed.
 *
 * A difference of cells determines that of their positions, but not the other way round: the
 * positions 0 and 1 are neighbours in a row of a grid, 3 and 4 can be in different rows.
 */
function certify({ fields }) {
  let left = MOST_STEPS;
  const proofs = fields.flatMap(({ name, distribution, metric, stochastic }) => {
    if (!distribution) return [];
    const { grid, invariance, kind, rises, size, work } = distribution, bound = distribution.largestRatio(), pairs = [];
    const groups = ((stochastic && metric.betweenPoints?.()) || metric).groups(), all = invariance === ALL;
    const largest = groups.reduce((limit, group) => (stricter(limit, group.limit) ? group.limit : limit), groups[0].limit);
    const bounded = largest.allows(bound), same = invariance === DIFFERENCE && [`${size}`, `${metric.grid}`].includes(`${grid}`);
    for (const { limit, pairs: listed, widest } of all ? [strictest(groups)] : groups) {
      const one = all || (bounded && !stricter(limit, largest));
      for (const pair of !one && same && rises ? [widest] : listed(one || !same)) {
        pairs.push([limit, one, pair]);
        if (one || pairs.length > MOST_STEPS / PAIR) break;
      }
    }
    left -= work(pairs.length) + PAIR * pairs.length;
    if (left < 0) reject(`steps of ${name}`);
    const proved = pairs.map(([limit, one, pair]) => {
      const ratio = one ? bound : distribution.ratio(...pair);
      return { loss: logOf(ratio), allowed: limit.allowed(), holds: limit.allows(ratio) };
    });
    // The first pair with the least room up to rounding; one that does not hold comes first.
    const broken = proved.filter(({ holds }) => !holds), shown = broken[0] ? broken : proved;
    const rooms = shown.map(({ allowed, loss }) => allowed - loss), least = lowest(rooms) + SAME;
    return { name, kind, ...shown[rooms.findIndex((room) => room <= least)] };
  });
  return { holds: proofs.every(({ holds }) => holds), proofs };
}

// guarantee.js
//
// Sentences about the guarantee, written from the numbers of a manifest.
//
// A factor says how many times as likely a report can be for one value as for another: e^epsilon of
// the two. Factors and epsilons are rounded up, so no sentence is stronger than the guarantee. There
// is no other source of such sentences: certificates, explanations, consent texts and the page of a
// client all use these.
//
// Values are decimals of at most 15 digits. Values that are rounded at random to points count as
// multiples of 2^-32 of the step between points, to which the device rounds them first.

/** From this epsilon on factors are written as powers of e. */
const LARGEST_FACTOR = 13;
const MOST_LISTED = 5;
/** Pairs of close values of a graph; if there are more, the epsilon of any two is stated. */
const MOST_CLOSE = 2 ** 16;
const ZERO = whole(0);

/** Thousands apart, if there are five digits or more. */
const grouped = (digits, least) => digits.replace(/^\d+/, (part) => (part.length < least ? part : part.replace(/\B(?=(...)+$)/g, ",")));

/** The number over 10^places as text. */
function plain(number, places) {
  if (places <= 0) return `${shifted(number, -places)[0]}`;
  const digits = `${number}`.padStart(places + 1, 0);
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

/** A number in few digits, rounded up. */
function roundedUp([n, d]) {
  let places = 4 - `${n}`.length + `${d}`.length;
  if (atMost(whole(1e4), shifted(n, places, d))) places--;
  const digits = plain(ceilOf(shifted(n, places, d)), places);
  return places > 0 ? digits.replace(/\.?0+$/, "") : digits;
}

/** e^epsilon in three digits, rounded up; from e^13 on as a power of e. */
function factor(epsilon) {
  if (floorOf(epsilon) >= LARGEST_FACTOR) return "e^" + roundedUp(epsilon);
  const ratio = expBounds(epsilon)[1], aboveOne = toNumber(minus(ratio, ONE));
  const digits = 2 - Math.floor(Math.log10(aboveOne < 0.1 ? aboveOne : toNumber(ratio))), places = Math.min(Math.max(digits, 0), 12);
  return grouped(plain(ceilOf(shifted(ratio[0], places, ratio[1])), places), 4);
}

const likely = (epsilon) => `at most ${factor(epsilon)} times as likely`;

/** The width of so many equal parts. */
const spread = ({ low, high }, count) => over(minus(decimalOf(high), decimalOf(low)), whole(count));

/** Of each position, the last one with a value that is close to one of its values. */
function lastClose(domain) {
  const { edges, given, low, ratio, size, within } = domain, most = decimalOf(within || 0), part = plus(decimalOf(ratio || 0), ONE);
  if (ratio || given) {
    const lows = edges ? edges.map(decimalOf) : range(size).map((x) => whole(low + x));
    let next = 0;
    return range(size).map((x) => {
      // A value in a bin is below its upper edge.
      const end = plus(times(lows[edges ? x + 1 : x], part), most);
      while (next < size && (edges ? !atMost(end, lows[next]) : atMost(lows[next], end))) next++;
      return next - 1;
    });
  }
  // Two values of one distance can be one bin more apart than its whole bins.
  const steps = Number(edges ? ceilOf(over(most, spread(domain, size))) : floorOf(larger(most, ONE)));
  return range(size).map((x) => Math.min(x + steps, size - 1));
}

/** What a field guarantees, and whether there is a response to its attribute. */
function guaranteeOf({ domains, distribution, metric, stochastic }, response) {
  const { at, farthest, kind, largest, ring } = metric, memoised = distribution.first, [only, ...others] = domains;
  const ratio = distribution.largestRatio(), exact = !stochastic && !atMost(CERTAIN, ratio) && logOf(ratio) <= toNumber(largest) - 1e-9;
  /** The epsilon of any two values: what the metric or the distribution guarantees. */
  const across = exact ? smaller(largest, logBound(ratio)) : largest;

  /** The distance of values of attribute k that are so many positions apart, all else being equal. */
  const along = (k) => (apart) => {
    const fraction = apart[1] ? apart : whole(apart);
    if (!at) return metric.distance(0, apart * prod(domains.slice(k + 1).map(({ size }) => size)));
    // Between points distances are proportional: `linear` is about points alone.
    return stochastic && metric.steps ? smaller(times(metric.epsilon, fraction), largest) : at(fraction);
  };

  /** The largest epsilon of two values that attribute k calls close. */
  const largestClose = (k) => {
    const domain = domains[k], { cyclic, size, within } = domain, distance = along(k);
    if (stochastic) {
      const apart = over(decimalOf(within), spread(domain, size - 1)), rounding = metric.steps ? [1n, BigInt(UNITS)] : ZERO;
      return distance(smaller(plus(apart, rounding), whole(size - 1))); // positions are rounded
    }
    const last = lastClose(domain), steps = highest(last.map((end, x) => end - x));
    if (farthest) {
      const reaches = last.map((end, x) => (cyclic ? steps : end - x)), firsts = reaches.map((far) => (cyclic || !metric.isLine ? 1 : far));
      if (reaches.reduce((sum, far, x) => sum + far - firsts[x], 0) > MOST_CLOSE) return largest;
      return reaches.reduce((most, far, x) => {
        for (let apart = firsts[x]; apart <= far; apart++) most = larger(most, metric.distance(x, (x + apart) % size));
        return most;
      }, ZERO);
    }
    // All other metrics depend on the number of steps alone.
    if (at) return distance(ring ? Math.min(steps, size >> 1) : steps);
    return range(steps + 1).flatMap((apart) => (cyclic && apart ? [apart, size - apart] : apart)).map(distance).reduce(larger);
  };

  /** The values of attribute k that are close, in words, and the largest epsilon between them. */
  const closeValues = (k) => {
    const { name, names, within, ratio } = domains[k], [, rest = ""] = ratio.split("."), another = `one ${name} as for another `;
    if (within) return [`${another}within ${grouped(within, 5)}${names ? (within === "1" ? " level" : " levels") : ""}`, largestClose(k)];
    const percent = () => plain(BigInt(ratio.replace(".", "")), rest.length - 2);
    if (ratio) return [`one ${name} as for another, if the larger is at most ${percent()} % above the smaller`, largestClose(k)];
    // The closest two values, or the sensitive ones.
    const { limit, pairs } = strictest(metric.groups()), [closest] = pairs(), { sensitive = [] } = metric, more = sensitive.length - MOST_LISTED;
    const labels = (positions) => positions.map((position) => label(only, position)), listed = labels(sensitive.slice(0, MOST_LISTED)).join(", ");
    if (!listed) return [`${labels(closest).join(" as for ")}, the closest two values`, limit.epsilon];
    return [`${another}if one is ${listed}${more > 0 ? ` and ${more} more` : ""}`, limit.epsilon];
  };

  /**
   * The largest epsilon between a value and no response.
   *
   * A missing response takes the position of the middle, so two fields of a report differ: the
   * value, and whether there is one.
   */
  const noResponse = () => {
    const last = only.size - 1, distance = along(0), middle = positionOf(only);
    let far = largest;
    if (farthest) far = farthest(middle);
    else if (at && !ring) {
      const place = stochastic ? [BigInt(middle), BigInt(UNITS)] : whole(middle);
      far = larger(distance(place), distance(minus(whole(last), place)));
    }
    return plus(smaller(far, across), guaranteeOf(response).across);
  };

  return {
    across,
    /** The largest epsilon between two respondents. */
    epsilon: () => (response ? larger(across, noResponse()) : across),
    /** The same for a first randomization that is remembered. */
    remembered: () => (response ? guaranteeOf(response).across : ZERO),
    /** The guarantee of attribute k in one to three sentences. */
    sentences({ name, within, ratio }, k) {
      const most = others.length ? smaller(range(domains[k].size).map(along(k)).reduce(larger), across) : across;
      const close = kind !== "uniform" && (within || ratio || !(others.length || stochastic)) && closeValues(k);
      let text = `A report is ${likely(most)} for one ${name} as for another.`;
      // Values are close only if others have a larger epsilon.
      if (close && !atMost(most, close[1])) text = `A report is ${likely(close[1])} for ${close[0]}, and at most ${factor(most)} times for any two.`;
      if (memoised) text += " This holds for all reports of one response together. Each different response counts again, and reports can reveal that it changed.";
      // Whether there is a response is not memoised.
      if (response) text += ` ${memoised ? "Each report" : "It"} is ${likely(noResponse())} for a value as for no response.`;
      return `${name}: ${text}`;
    },
  };
}

/** The private fields with what they guarantee, each with the field that says whether there is a response. */
function fieldsWithResponses({ fields }) {
  const responseTo = (name) => fields.find(({ domains: [only] }) => only.isResponse && only.name === name);
  return fields.flatMap((field, k) =>
    field.distribution && !field.domains[0].isResponse ? { field, k, guarantee: guaranteeOf(field, responseTo(field.name)) } : [],
  );
}

/** The guarantee of each attribute and group, and of all attributes together. */
function sentences(manifest) {
  const all = fieldsWithResponses(manifest), together = all.map(({ guarantee }) => guarantee.epsilon()).reduce(plus);
  const lines = all.flatMap(({ field: { domains }, guarantee }) => {
    const group = domains.map(({ name }) => name).join(" and "), each = domains.map(guarantee.sentences);
    return domains[1] ? [...each, `${group}: A report is ${likely(guarantee.across)} for one respondent as for another who differs in these attributes alone.`] : each;
  });
  for (const { distribution, name } of manifest.fields) if (!distribution) lines.push(`${name}: The value is sent without protection.`);
  const which = manifest.fields.every(({ distribution }) => distribution) ? "All" : "All private";
  return [...lines, `${which} attributes together: A report is ${likely(together)} for one respondent as for another (epsilon ${roundedUp(together)}).`];
}

// device.js
//
// The device: a response to the bytes of one report.
//
// All values are checked before the first random word is read. The number of words does not depend
// on the values.

/**
 * What makes the reports of one respondent.
 *
 * The manifest is verified when the device is made: one that breaks its guarantee throws an
 * InvalidManifestError. `open` compares it with the published fingerprint; else a distributor can
 * give each device a manifest of its own and recognize its reports.
 */
function deviceOf(manifest) {
  const { fields, fingerprint, names, optional } = manifest, certificate = certify(manifest);
  if (!certificate.holds) throw new InvalidManifestError("guarantee", "the guarantee does not hold");
  /** Under which name the memory has the first randomization of a memoised field. */
  const keyOf = ({ name }, position) => `${fingerprint} ${position} ${name}`;
  return {
    certificate,
    keyOf,

    /** The position of each field, for a response: an object of values by attribute; of a group the flattened cell. */
    positions(response, clip) {
      if (typeof response !== "object" || !response) throw new InvalidValueError("kind", "response");
      const values = new Map(Object.entries(response)), unknown = [...values.keys()].find((name) => !names.includes(name));
      // A misspelt name of an optional attribute would read as no response. The check does not
      // depend on whether there is one.
      if (optional && unknown !== undefined) throw new InvalidValueError("kind", unknown);
      const position = (domain) => positionOf(domain, values.get(domain.name), clip);
      return fields.map(({ domains }) => domains.map(position).reduce((all, one, k) => all * domains[k].size + one));
    },

    /**
     * A report in hexadecimal digits. Words that are not uniform give no privacy. The memory, an
     * object, has the first randomizations that a device remembers. It is private and never leaves
     * the device.
     */
    randomize(positions, words, memory) {
      const remembered = {};
      const parts = fields.map((field, k) => {
        const { bits, distribution, name, stochastic } = field, key = keyOf(field, positions[k]);
        let part = stochastic ? words.round(positions[k]) : positions[k];
        if (distribution?.first && memory) {
          // The first randomization is drawn in any case, so that neither words nor time depend on
          // whether it is remembered.
          const { first, second } = distribution, drawn = first.draw(part, words);
          const once = (remembered[key] = Object.hasOwn(memory, key) ? memory[key] : drawn);
          if (integer(0, first.outputs - 1)(once) === undefined) throw new InvalidValueError("memory", name);
          part = second.draw(once, words);
        } else if (distribution) part = distribution.draw(part, words);
        if (BigInt(part) >> BigInt(bits)) throw new CertificateError("bits", name);
        return part;
      });
      Object.assign(memory || {}, remembered);
      return pack(manifest, parts);
    },
  };
}

// client.js
//
// The client: a survey in a browser, with storage, sending, invites and a privacy accountant.
// Browsers, and node from version 19 on. No dependencies. The formats are in docs/specification.md.

const KEY = "metricldp";

/** A copy without a prototype: its keys may be any names, such as "constructor". */
const own = (from) => ({ __proto__: null, ...from });
const epsilonOf = (all) => Object.values(all).reduce((total, { epsilon }) => total + epsilon, 0);

/** A survey that was opened: one respondent's reports, stored until they have arrived. */
function surveyOf(manifest, { store, send, limit }) {
  const { fingerprint, names } = manifest, device = deviceOf(manifest), fields = fieldsWithResponses(manifest);
  let sending = queue, timer;

  const load = async () => own(JSON.parse((await store.getItem(KEY)) || 0));
  /** One tab at a time reads, changes and writes what is stored; what throws changes nothing. */
  const change = (work) =>
    locked(async () => {
      const all = await load();
      const mine = (all[fingerprint] ??= { attributes: names, reports: 0, epsilon: 0, memory: {} });
      mine.waves = own(mine.waves);
      work(mine, all);
      await store.setItem(KEY, JSON.stringify(all));
    });
  const waves = async () => own((await load())[fingerprint]?.waves);

  /** The epsilon that a report adds: nothing for a first randomization that is remembered. */
  const added = (positions, memory) =>
    toNumber(
      fields.map(({ field, k, guarantee }) => (device.keyOf(field, positions[k]) in memory ? guarantee.remembered() : guarantee.epsilon())).reduce(plus),
    );

  /** What became of a body that was sent: sent or rejected, or it waits. */
  const deliver = async (body) => {
    let wait;
    try {
      const response = await fetch(`${send.replace(/\/$/, "")}/v1/surveys/${fingerprint}/reports`, {
        method: "POST",
        body: ofHex(body),
        credentials: "omit",
      });
      const { ok, headers } = response;
      wait = 1000 * headers.get("retry-after");
      if (/json/.test(headers.get("content-type")) && !/40[48]|429|^5/.test(response.status)) {
        const { accepted, duplicate, rejected = {}, type } = await response.json();
        const [reason] = ok ? Object.keys(rejected) : (type || "").match(/[^/#:]*$/);
        if (ok && accepted + duplicate) return { state: "sent" };
        if (reason) return { state: "rejected", reason };
      }
    } catch {
      // no network: later
    }
    clearTimeout(timer);
    timer = setTimeout(flush, (wait || 3e4) * (1 + Math.random()));
    timer.unref?.();
    return { after: Date.now() + wait };
  };
  const sendAll = async () => {
    for (const [wave, { id, body, after }] of Object.entries(await waves()))
      if (send && body && !(after > Date.now())) {
        const outcome = await deliver(body);
        await change(({ waves }) => (waves[wave] = outcome.state ? { id, ...outcome } : { ...waves[wave], ...outcome }));
      }
  };
  /** Sends what waits. */
  const flush = () => (sending = sending.then(sendAll, sendAll));
  /** The state of a report, without sending. */
  const status = async (wave = "") => {
    const { body, after, ...shown } = own((await waves())[wave]);
    return shown;
  };

  return {
    fingerprint,
    flush,
    status,

    /** The guarantee in sentences: of each attribute and group, and of all attributes together. */
    guarantee: () => sentences(manifest),

    /** The proof of the guarantee, from the integers that random words are compared with. */
    certify: () => device.certificate,

    /** Randomize once, store the bytes, send them. A second call sends the same bytes, or nothing. */
    async report(response, { wave = "", invite, clip } = {}) {
      const positions = device.positions(response, clip);
      await change((mine, all) => {
        if (mine.waves[wave]) return;
        const epsilon = added(positions, mine.memory), total = epsilonOf(all) + epsilon;
        if (total > limit) throw new MetricLdpError("limit", `the report would bring epsilon to ${total}`);
        const body = (invite ? readInvite(invite) : newId()) + device.randomize(positions, wordsOf(), mine.memory);
        mine.waves[wave] = { id: body.slice(0, 32), state: "waiting", body };
        mine.reports++;
        mine.epsilon += epsilon;
      });
      await flush();
      return status(wave);
    },

    /** The privacy accountant of this device: reports and their epsilon, by survey. */
    async accountant() {
      const all = await load(), surveys = own();
      for (const [key, { attributes, reports, epsilon }] of Object.entries(all)) surveys[key] = { attributes, reports, epsilon };
      return { surveys, epsilon: epsilonOf(all) };
    },
  };
}

let queue = Promise.resolve();
const locked = (work) => globalThis.navigator?.locks?.request(KEY, work) || (queue = queue.then(work, work));

/** The day, so that a collector can forget old ids, and 96 random bits. */
const newId = () =>
  Math.floor(new Date() / 864e5).toString(16).padStart(8, 0) + toHex(crypto.getRandomValues(new Uint8Array(12)));

/** The serial number of an invite, and what proves it, as the collector writes them. */
function readInvite(digits) {
  if (/^\w{64}(\w{480})?$/.test(digits)) return digits;
  throw new MetricLdpError("invite", "an invite has 64 or 544 hexadecimal digits");
}

/** What the device stores. A lock alone is not enough: tabs read old values in localStorage. */
const stored = (request) =>
  new Promise((done, fail) => {
    const opening = indexedDB.open(KEY);
    opening.onupgradeneeded = () => opening.result.createObjectStore(KEY);
    opening.onerror = fail;
    opening.onsuccess = () => {
      const transaction = opening.result.transaction(KEY, "readwrite"), asking = request(transaction.objectStore(KEY));
      transaction.onabort = fail;
      transaction.oncomplete = () => done(asking.result);
    };
  });
const database = {
  getItem: (key) => stored((objects) => objects.get(key)),
  setItem: (key, text) => stored((objects) => objects.put(text, key)),
};

/** The SHA-256 of a manifest, in hexadecimal digits. */
async function fingerprintOf(text) {
  if (!crypto.subtle) throw new MetricLdpError("https", "the page needs https");
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

/**
 * Opens a survey by its manifest, the text or its address. `fingerprint` is the SHA-256 of the
 * manifest, which the owner publishes: any other manifest is rejected, and so is one whose
 * guarantee does not hold.
 */
async function open(source, { fingerprint, store = database, ...more } = {}) {
  const text = source[0] === "{" ? source : await (await fetch(source)).text(), actual = await fingerprintOf(text);
  if (actual !== fingerprint) throw new InvalidManifestError("fingerprint", `the manifest has the fingerprint ${actual}`);
  const survey = surveyOf(parse(text, fingerprint), { store, ...more });
  if (more.send) {
    globalThis.addEventListener?.("online", survey.flush);
    survey.flush();
  }
  return survey;
}

/** For tests only, it gives no privacy: reports from given words. */
const forTestsOnly = { certify, deviceOf, parse, sentences, wordsOf };

export { CertificateError, InvalidManifestError, InvalidValueError, MetricLdpError, forTestsOnly, open };
