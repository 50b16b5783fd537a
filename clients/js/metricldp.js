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

/** The nearest double of a fraction that is not negative. */
function toNumber([n, d]) {
  const shift = BigInt(Math.max(bitLength(d) - bitLength(n) + 66, 0));
  return Number((n << shift) / d) / 2 ** Number(shift);
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

/** The canonical text of plain data. */
function canonical(data) {
  if (Array.isArray(data)) return `[${data.map(canonical)}]`;
  if (!data || typeof data !== "object") return JSON.stringify(data);
  return `{${Object.keys(data).sort().map((key) => JSON.stringify(key) + ":" + canonical(data[key]))}}`;
}

function reject(why) {
  throw new InvalidManifestError("manifest", `the manifest is invalid: ${why}`);
}

/**
 * The check of an object: `read` gets a function entry(key, check, absent) that reads a key once.
 *
 * A key that has not been read is rejected, so nothing in a manifest is ignored.
 */
const object = (read) => (data) => {
  if (!data || typeof data !== "object" || Array.isArray(data)) return;
  const rest = new Map(Object.entries(data));
  const value = read((key, check, absent) => {
    const value = rest.has(key) ? check(rest.get(key)) : absent;
    rest.delete(key);
    return value ?? reject(key);
  });
  for (const key of rest.keys()) reject("unknown key " + key);
  return value;
};

const list = (check, least, most) => (values) => {
  if (!Array.isArray(values) || values.length < least || values.length > most) return;
  values = values.map((value) => check(value));
  return values.includes(undefined) ? undefined : values;
};

const text = (value) => (typeof value === "string" ? value : undefined);

/** A line of text: of separators only the space, and no control, format or unknown characters. */
const textLine = (value) => (text(value) && /^ *[^\p{C}\p{Z}]( |[^\p{C}\p{Z}])*$/u.test(value) ? value : undefined);

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
//   cost          about how many elementary steps one ratio takes

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
  const both = (up, down) => times(up[0], down[1]);
  return {
    size,
    bits: size,
    invariance: new Set(Object.values(known).map(String)).size < 2 ? ALL : NONE,
    draw(position, words) {
      const report = others.map(words.below);
      report[position] = words.below(owns[position]);
      return joined(report);
    },
    ratio: (x, other) => larger(both(bitRatios[x], bitRatios[other]), both(bitRatios[other], bitRatios[x])),
    largestRatio: () => times(...[0, 1].map((way) => bitRatios.map((ratios) => ratios[way]).reduce(larger))),
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
 * domain from any position; one word for the sign; one word for zero. The words do not depend on
 * the position.
 *
 * Ratio: adding noise that differs by d moves along d steps of the noise's distribution, and
 * clipping is applied to what was drawn, so it cannot raise a ratio. The ratio is at most
 * step^|x - x'|, with step the largest ratio, either way, of the probabilities of neighbouring
 * values of the noise. From g + 1 to g + 2, with g's lowest 1-digits carried into digit j, it is
 * the product of p_i / (1 - p_i) over i < j and (1 - p_j) / p_j; for a carry into the blocks the
 * last factor is 1 / block. From 0 to 1 it is 2 zero / ((1 - zero) (1 - block) prod (1 - p_i)).
 */
function geometric(entry, most = MOST_POSITIONS) {
  const size = entry("size", integer(2, most)), zero = entry("zero", POSSIBLE), block = entry("block", POSSIBLE);
  const digits = entry("digits", list(PROBABILITY, 0, 63)), length = 2 ** digits.length;
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
    cost: rows.length,
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
  const weights = entry("weights", list(list(PROBABILITY, 2, MOST_POSITIONS), 2, 4096));
  return tableOf(weights, weights.length * weights[0].length <= MOST_POSITIONS);
}

/** The table of these weights, if all rows are distributions on the same reports. */
function tableOf(weights, valid = true) {
  const outputs = weights[0].length, cumulative = [], logs = [];
  if (!valid || weights.some((row) => row.length !== outputs || lowest(row) < 0n || accumulate(row).at(-1) !== WORD)) reject("weights");
  // The logarithm of 0 is below all others, which are from 0 to 45.
  const logsOf = (x) => (logs[x] ??= weights[x].map((weight) => (weight ? Math.log(Number(weight)) : -100)));
  return {
    size: weights.length,
    outputs,
    cost: outputs,
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

/** The check of a distribution of one of these kinds; any other is rejected by name. */
const distribution = (kinds) =>
  object((entry) => {
    const kind = entry("kind", textLine), read = kinds[kind] || reject(`distribution ${kind} is not supported`);
    const made = read(entry), { outputs = made.size } = made, largestRatio = () => made.ratio(0, made.size - 1);
    return { outputs, bits: bitsFor(outputs), invariance: NONE, cost: 1, grid: [made.size], largestRatio, ...made, kind };
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
      for (let k = count; k--; ) values.push(value);
      return true;
    }, 1, most)(data);
    return all && values;
  };
}

const BOTH = { __proto__: null, "randomized-response": randomizedResponse };
/** Distributions of a field by kind; `levels` adds two. */
const SUPPORTED = { ...BOTH, __proto__: null, threshold, unary, geometric, matrix, memoised, table };
/** The two randomizations of a memoised response. */
const FIRST = { ...BOTH, __proto__: null, geometric, table };
const SECOND = { ...BOTH, __proto__: null, "lazy-geometric": lazyGeometric };

// levels.js
//
// Distributions whose probabilities depend on a depth: mixtures of extreme points, additive noise.
//
// A shape assigns a depth, a whole number, to each position. Its level at depth 0 is an integer
// top; the level below t is t fall / 2^64, rounded up. So levels k depths apart have a ratio of at
// most (2^64 / fall)^k, and no level is 0.

const DEEPEST = 2 ** 14;
/** Depths of all shapes together. */
const MOST_DEPTHS = 2 ** 20;
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
    cost: outputs,
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
  if (shapes.some((shape) => shape.length !== length || lowest(shape)) || count * length > MOST_DEPTHS) reject("depths");
  return shapes.map((shape, k) => {
    const levels = [tops[k]];
    for (const deepest = highest(shape); levels.length <= deepest; ) levels.push((levels.at(-1) * fall + WORD - 1n) >> 64n);
    return shape.map((depth) => levels[depth]);
  });
}

/** Depths in their shortest form: a digit for each if all are below 62; with ":" in front, two; else a list. */
function readDepths(data) {
  const pairs = data?.[0] === ":";
  let depths = data;
  if (typeof data === "string") {
    const digits = [...data.slice(+pairs)].map((digit) => DIGITS.indexOf(digit));
    if (digits.includes(-1)) return;
    depths = pairs ? digits.flatMap((digit, at) => (at % 2 ? BASE * digits[at - 1] + digit : digits.length % 2 ? -1 : [])) : digits;
  }
  const read = list(integer(0, DEEPEST), 2, MOST_DEPTHS)(depths), deepest = read && highest(read);
  return deepest >= (depths === data ? BASE * BASE : pairs ? BASE : 0) ? read : undefined;
}

Object.assign(SUPPORTED, { additive, extremal });
FIRST.extremal = extremal;

// metrics.js
//
// Metrics on positions: what a field guarantees, and the pairs of positions that prove it.
//
// E(x, x') bounds the logarithm of the likelihood ratio of x and x'. Likelihood ratios multiply
// along a path of positions as distances add, so it is enough to examine *generating* pairs: those
// whose distance is not the sum of the distances of two parts of a path. All distances are fractions.
//
// A metric is an object with
//   distance         E(x, x'), or an upper bound of it
//   pairs            the generating pairs x < x' if `every`, else one for each difference, for
//                    distributions that depend on it alone
//   limit            what a generating pair allows, see `limitOf`
//   smallest         a pair at the smallest distance
//   largest          the largest distance of two positions, or an upper bound of it

/** Generating pairs that a manifest lists. */
const MOST_PAIRS = 2 ** 20;
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
    allowed: linear ? logOf(most) : toNumber(epsilon),
  };
}

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
    *pairs(every) {
      for (let x = 0; x < (every ? size : 1); x++) for (let other = x + 1; other < size; other++) yield [x, other];
    },
    limit: () => limitOf(epsilon),
    smallest: [0, 1],
    largest: () => epsilon,
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
  let differences;
  /** The generating differences, in rising order. */
  const generating = () => {
    const [n, d] = width, bounded = (number) => Number(number < widest ? number : BigInt(widest));
    const most = cap ? floorOf(over(cap, epsilon)) : BigInt(widest), found = new Set(range(bounded(n / d) + 1).slice(1));
    let least = n % d;
    for (let k = 2n; k <= most && least && k * n <= BigInt(widest) * d; k++)
      if ((k * n) % d < least) {
        least = (k * n) % d;
        found.add(Number((k * n) / d));
      }
    if (cap) for (let far = bounded((n * most) / d) + 1; far <= widest; far++) found.add(far);
    return [...found].sort((a, b) => a - b);
  };
  return {
    epsilon,
    ring,
    /** Whether distances are proportional to differences, up to the cap. */
    steps,
    at,
    distance,
    *pairs(every) {
      for (const d of (differences ??= generating())) {
        for (let x = 0; x < (every ? size - d : 1); x++) yield [x, x + d];
        if (ring && 2 * d < size) for (let x = 0; x < (every ? d : 1); x++) yield [x, x + size - d];
      }
    },
    limit: (x, other) => limitOf(distance(x, other), linear && other - x === 1),
    smallest: [0, 1],
    largest: () => distance(0, widest),
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
  const lengths = entry("lengths", list(length, pairs.length, pairs.length)), key = (x, other) => x * size + other;
  const listed = new Map(pairs.map((pair, k) => [key(...pair), lengths[k]])), edges = range(size).map(() => []);
  pairs.forEach(([x, other], k) => {
    edges[x].push([other, lengths[k]]);
    edges[other].push([x, lengths[k]]);
  });
  const far = distances(step, lengths);
  /** Lengths of shortest paths (Dijkstra's algorithm), undefined for positions without a path. */
  const distancesFrom = (start) => {
    const found = Array(size).fill(), queue = [-BigInt(start)], places = BigInt(size);
    while (queue.length) {
      // The queue has -(length size + position), the shortest length last.
      const next = -queue.pop(), x = next % places, length = next / places;
      if (found[x] === undefined) {
        found[x] = length;
        for (const [other, more] of edges[x]) {
          const one = -((length + more) * places + BigInt(other));
          if (found[other] === undefined) queue.splice(bisect(queue, one), 0, one);
        }
      }
    }
    return found;
  };
  if (listed.size < pairs.length || pairs.join() === path.join() !== (pairs === path) || distancesFrom(0).includes(undefined)) reject("pairs");
  /** All distances, if there are few enough pairs. */
  const all = size * pairs.length <= MOST_STEPS_OF_PATHS && range(size).map(distancesFrom), farthest = () => far(highest(distancesFrom(size >> 1)));
  // Over the middle position any two are at most twice its largest distance apart.
  const largest = () => (all ? far(highest(all.map(highest))) : times(whole(2), farthest()));
  const complete = new Set(range(size).filter((x) => edges[x].length === size - 1));
  const touched = new Set(lengths).size < 2 && complete.size < size && pairs.every((pair) => pair.some((x) => complete.has(x)));
  return {
    distance: (x, other) => (all ? far(all[x][other]) : largest()),
    pairs: () => pairs,
    limit: (...pair) => limitOf(far(listed.get(key(...pair)))),
    smallest: pairs[lengths.indexOf(lowest(lengths))],
    largest,
    /** The largest distance from the middle position. */
    farthest,
    /** Positions at the smallest distance of all others, if all pairs contain one of them. */
    sensitive: touched ? [...complete] : [],
  };
}

/** A positive integer, as text from 2^53 on. */
function length(number) {
  if (/^[1-9]\d{15,1999}$/.test(text(number))) return BigInt(number) < LARGEST_NUMBER ? undefined : BigInt(number);
  return integer(1, LARGEST_NUMBER - 1)(number) && BigInt(number);
}

/** The distance of a length; none is above 2^40. */
function distances(step, lengths) {
  const distance = (length) => times(step, [length, 1n]);
  if (!atMost(distance(highest(lengths)), whole(2 ** 40))) reject("lengths");
  return distance;
}

/**
 * E on the cells of a grid: the length of the shortest path over listed steps.
 *
 * A step moves by a number of positions along each attribute, up or down. Cells are flattened, the
 * last attribute fastest. Paths are monotone along each attribute.
 */
function grid(entry, size) {
  const step = entry("step", ratio), sizes = entry("sizes", list(integer(2, size), 2, 8)), dimensions = sizes.length;
  const moves = entry("steps", list(list((value) => value, dimensions + 1, dimensions + 1), dimensions, MOST_PAIRS));
  const lengths = moves.map((move) => length(move.pop()) || reject("steps")), different = new Set(moves.map(String));
  const units = sizes.map((_, d) => String(sizes.map((_, k) => +(k === d))));
  if (
    !moves.every((move) => move.some(Number) && move.every((part, d) => integer(0, sizes[d] - 1)(part) !== undefined)) ||
    !units.every((unit) => different.has(unit)) || different.size < moves.length || prod(sizes) !== size || size * moves.length > 32 * MOST_STEPS_OF_PATHS
  )
    reject("steps");
  /** The position of a cell, and the cell at a position. */
  const flat = (cell) => cell.reduce((all, x, d) => all * sizes[d] + x, 0);
  const cell = (position) => sizes.map((_, d) => Math.floor(position / prod(sizes.slice(d + 1))) % sizes[d]);
  /** Each step in all directions, of two opposite ones the first. */
  const directions = moves.flatMap((move) => {
    const all = move.reduce((some, part) => some.flatMap((way) => (part ? [[...way, part], [...way, -part]] : [[...way, 0]])), [[]]);
    return all.slice(0, (all.length + 1) / 2);
  });
  const cells = range(size).map(cell);
  /** The shortest path for each number of positions along each attribute. */
  const shortest = cells.reduce((found, apart, x) => {
    moves.forEach((move, k) => {
      const length = move.every((part, d) => part <= apart[d]) && found[x - flat(move)] + lengths[k];
      if (length && !(found[x] <= length)) found[x] = length;
    });
    return found;
  }, [0n]);
  const far = distances(step, lengths), distance = (x, other) => far(shortest[flat(cells[x].map((at, d) => Math.abs(at - cells[other][d])))]);
  return {
    grid: sizes,
    distance,
    *pairs(every) {
      for (const direction of directions)
        for (let x = 0; x < size; x++)
          if (cells[x].every((at, d) => at + direction[d] >= 0 && at + direction[d] < sizes[d])) {
            yield [x, x + flat(direction)];
            if (!every) break;
          }
    },
    limit: (x, other) => limitOf(distance(x, other)),
    smallest: [0, flat(moves[lengths.indexOf(lowest(lengths))])],
    largest: () => far(highest(shortest)),
  };
}

const METRICS = { __proto__: null, uniform, line, graph, grid };

/** The check of a metric on so many positions. */
const metric = (size) =>
  object((entry) => {
    const kind = entry("kind", textLine), read = METRICS[kind] || reject(`metric ${kind} is not supported`);
    return { kind, ...read(entry, size) };
  });

// values.js
//
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

const NUMBER = /^[+-]?(inf|infinity|nan|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)$/i;
const DECIMAL = /^(?=.*[1-9])(0|[1-9]\d{0,19})(\.\d{0,19}[1-9])?$/;
const LONGEST_TEXT = 1000;
const MOST_NAMES = 4096;

/** Text without white space at the ends, as Python has it. */
const stripped = (value) => value.replace(/^[\p{Z}\t-\r\x1c-\x1f\x85]+|[\p{Z}\t-\r\x1c-\x1f\x85]+$/gu, "");

/** Whether a response is missing: null, undefined, NaN or blank text. */
const isMissing = (value) => (value ?? NaN) !== value || !stripped(text(value) ?? "-");

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
const domain = object((entry) => {
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
const LONGEST_MANIFEST = 2 ** 24;
const MOST_ATTRIBUTES = 1000;

/** One part of a report; a public weight has no metric and no distribution. */
const field = object((entry) => {
  const domains = entry("attributes", list(domain, 1, 8)), [first] = domains, names = domains.map(({ name }) => name).join("+");
  const made = {
    domains,
    /** Whether positions are rounded at random. */
    stochastic: first.stochastic,
    name: first.isResponse ? `${names}=response` : names,
    bits: 64,
    /** The position of the field from those of its attributes: cells are flattened. */
    position: (positions) => positions.reduce((all, position, k) => all * domains[k].size + position),
  };
  if (first.isPublic && domains.length < 2) return made;
  const size = prod(domains.map(({ size }) => size)), special = (one) => one.isResponse || one.isPublic || one.stochastic || one.optional;
  const distributed = entry("distribution", distribution(SUPPORTED)), guaranteed = entry("metric", metric(size));
  if (distributed.size !== size || (domains.length > 1 && domains.some(special)) || !fits(guaranteed, domains)) reject("size");
  return { ...made, bits: distributed.bits, distribution: distributed, metric: guaranteed };
});

/**
 * Whether a metric on positions is one on the values of these attributes.
 *
 * `betweenPoints` and the sentences about the guarantee rely on it.
 */
function fits({ at, grid, kind, ring }, domains) {
  const [{ cyclic, stochastic }, ...others] = domains;
  if (kind === "uniform") return true;
  if (grid || others.length) return others.length && String(grid) === String(domains.map(({ size }) => size));
  return at ? ring === !!cyclic : !stochastic;
}

/** Read a manifest; whatever is unknown, missing or too large throws an error. */
function parse(text, fingerprint) {
  let data;
  try {
    data = JSON.parse(text.length > LONGEST_MANIFEST || text);
  } catch {
    reject("not JSON");
  }
  const read = object((entry) => entry("metricldp", integer(FORMAT, FORMAT)) && entry("fields", list(field, 1, 2 * MOST_ATTRIBUTES)));
  const fields = read(data) || reject("not an object"), domains = fields.flatMap(({ domains }) => domains);
  const namesOf = (domains) => domains.map(({ name }) => name), sorted = (domains) => namesOf(domains).sort().join("=");
  const responses = domains.filter(({ isResponse }) => isResponse), optional = domains.filter(({ optional }) => optional);
  const names = namesOf(domains.filter(({ isResponse }) => !isResponse)), bits = fields.reduce((all, { bits }) => all + bits, 0);
  if (new Set(names).size < names.length || sorted(optional) !== sorted(responses)) reject("names");
  if (domains.length > 2 * MOST_ATTRIBUTES || fields.every(({ distribution }) => !distribution) || bits > MOST_BITS) reject("fields");
  if (canonical(data) !== text) reject("not in canonical form");
  return { fields, fingerprint, bits, names, optional: !!optional.length };
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
/** Losses that differ by no more are equal up to rounding. */
const SAME = 1e-12;

/** Compare all likelihood ratios of a manifest with its metrics. */
function certify({ fields }) {
  let left = MOST_STEPS;
  const proofs = fields.map(({ name, distribution, metric, stochastic }) => {
    if (!distribution) return { name, holds: true };
    const guaranteed = stochastic ? metric.betweenPoints?.() || metric : metric;
    for (const _ of examined(distribution, guaranteed)) if ((left -= distribution.cost) < 0) reject(`the proof of ${name} takes too many steps`);
    return { name, kind: distribution.kind, ...prove(distribution, guaranteed) };
  });
  return { holds: proofs.every(({ holds }) => holds), proofs, lines: proofs.map(proofLine) };
}

/**
 * Examine every pair that is needed, given what the ratio depends on.
 *
 * The ratio of the highest and the lowest probability is a bound for all pairs. If the largest
 * distance allows it, all pairs at that distance hold, and one of them is listed.
 */
function prove(distribution, metric) {
  const bound = distribution.largestRatio(), largest = metric.largest(), bounded = limitOf(largest).allows(bound), pairs = [];
  let seen;
  for (const pair of examined(distribution, metric)) {
    const limit = metric.limit(...pair), far = bounded && !limit.linear && atMost(largest, limit.epsilon);
    if (far && seen) continue;
    seen ||= far;
    const ratio = far ? bound : distribution.ratio(...pair);
    pairs.push({ loss: logOf(ratio), allowed: limit.allowed, holds: far || limit.allows(ratio) });
  }
  // The first pair with the least room up to rounding; one that does not hold comes first.
  const broken = pairs.filter(({ holds }) => !holds), room = ({ allowed, loss }) => allowed - loss;
  const listed = broken.length ? broken : pairs, least = lowest(listed.map(room)) + SAME;
  return listed.find((pair) => room(pair) <= least);
}

/**
 * The generating pairs; of equivalent ones that with the smallest distance.
 *
 * If the ratio is the same for all pairs, a pair at the smallest distance is enough. If it depends
 * on the difference of cells alone, as the metric does, one pair for each difference is. A
 * difference of cells determines that of their positions, but not the other way round: the
 * positions 0 and 1 are neighbours in a row of a grid, 3 and 4 can be in different rows.
 */
function examined({ grid, invariance, size }, metric) {
  if (invariance === ALL) return [metric.smallest];
  const same = [`${size}`, `${metric.grid}`].includes(`${grid}`);
  return metric.pairs(invariance !== DIFFERENCE || !same);
}

function proofLine({ name, kind, loss, allowed, holds }) {
  const digits = (number) => +number.toPrecision(9);
  return kind ? `${name}: ${kind}, exact loss ${digits(loss)}, allowed ${digits(allowed)}: ${holds ? "holds" : "BROKEN"}` : `${name}: sent without protection`;
}

// guarantee.js
//
// Sentences about the guarantee, written from the numbers of a manifest.
//
// A factor says how many times as likely a report can be for one value as for another: e^epsilon of
// the two. Factors and epsilons are rounded up, so no sentence is stronger than the guarantee. There
// is no other source of such sentences: certificates, explanations, consent texts and the page of a
// client all use these.

/** From this epsilon on factors are written as powers of e. */
const LARGEST_FACTOR = whole(13);
const MOST_LISTED = 5;
const ZERO = whole(0);

const thousands = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

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
  if (atMost(LARGEST_FACTOR, epsilon)) return "e^" + roundedUp(epsilon);
  const [, ratio] = expBounds(epsilon), aboveOne = toNumber(minus(ratio, ONE));
  const places = 2 - Math.floor(Math.log10(aboveOne < 0.1 ? aboveOne : toNumber(ratio))), [n, d] = ratio;
  return places > 0 ? plain(ceilOf(shifted(n, Math.min(places, 12), d)), Math.min(places, 12)) : thousands(`${ceilOf(ratio)}`);
}

const likely = (epsilon) => `at most ${factor(epsilon)} times as likely`;

/** The epsilon of any two values of a field: what the metric or the distribution guarantees. */
function largestEpsilon({ metric, distribution, stochastic }) {
  const largest = metric.largest(), ratio = distribution.largestRatio();
  if (stochastic || atMost(CERTAIN, ratio) || logOf(ratio) > toNumber(largest) - 1e-9) return largest;
  return smaller(largest, logBound(ratio));
}

/** The epsilon of any two values of attribute k, all else being equal. */
function attributeEpsilon(field, k) {
  const largest = largestEpsilon(field), { domains } = field;
  return domains.length < 2 ? largest : smaller(range(domains[k].size).map(along(field, k)).reduce(larger), largest);
}

/**
 * The values of attribute k that are close, in words, and the largest epsilon between them.
 *
 * Nothing if no pair of values has a larger epsilon.
 */
function closeValues(field, k) {
  const { domains, metric, stochastic } = field, domain = domains[k], { name, names, within, ratio, isResponse } = domain;
  if (metric.kind === "uniform" || isResponse) return;
  let words, epsilon;
  if (within) {
    const [digits, ...rest] = within.split(".");
    words = `one ${name} as for another within ${[digits.length > 4 ? thousands(digits) : digits, ...rest].join(".")}`;
    if (names) words += within === "1" ? " level" : " levels";
  } else if (ratio) words = `one ${name} as for another that differs by ${percent(ratio)} %`;
  else if (domains.length < 2 && !stochastic) [words, epsilon] = closest(domain, metric);
  else return;
  epsilon ??= largestClose(field, k);
  return !atMost(attributeEpsilon(field, k), epsilon) && [words, epsilon];
}

/** The distance of values of attribute k that are so many positions apart, all else being equal. */
function along({ domains, metric, stochastic }, k) {
  const stride = prod(domains.slice(k + 1).map(({ size }) => size)), { at, epsilon, largest, steps } = metric;
  if (!at) return (apart) => metric.distance(0, apart * stride);
  // Between points distances are proportional: `linear` is about points alone.
  const distance = (apart) => (stochastic && steps ? smaller(times(epsilon, apart), largest()) : at(apart));
  return (apart) => distance(apart[1] ? apart : whole(apart));
}

/** The largest epsilon of two values that attribute k calls close. */
function largestClose(field, k) {
  const { domains, metric } = field, { cyclic, high, low, size, stochastic, within } = domains[k], distance = along(field, k);
  if (stochastic) return distance(smaller(over(decimalOf(within), spread(low, high, size - 1)), whole(size - 1)));
  const last = lastClose(domains[k]);
  if (metric.kind === "graph") return last.flatMap((end, x) => range(size).slice(x + 1, end + 1).map((other) => metric.distance(x, other))).reduce(larger, ZERO);
  // All other metrics depend on the number of steps alone.
  const steps = highest(last.map((end, x) => end - x));
  if (metric.at) return distance(metric.ring ? Math.min(steps, size >> 1) : steps);
  return range(steps + 1).flatMap((apart) => (cyclic && apart ? [apart, size - apart] : apart)).map(distance).reduce(larger);
}

/** The width of so many equal parts. */
const spread = (low, high, count) => over(minus(decimalOf(high), decimalOf(low)), whole(count));

/** Of each position, the last one with a value that is close to one of its values. */
function lastClose({ edges, given, high, low, ratio, size, within }) {
  const most = decimalOf(within || 0);
  if (ratio || given) {
    const lows = edges ? edges.map(decimalOf) : range(size).map((x) => whole(low + x)), part = plus(decimalOf(ratio || 0), ONE);
    let next = 0;
    return range(size).map((x) => {
      // A value in a bin is below its upper edge.
      const end = plus(times(lows[edges ? x + 1 : x], part), most);
      while (next < size && (edges ? !atMost(end, lows[next]) : atMost(lows[next], end))) next++;
      return next - 1;
    });
  }
  // Two values of one distance can be one bin more apart than its whole bins.
  const steps = Number(edges ? ceilOf(over(most, spread(low, high, size))) : floorOf(larger(most, ONE)));
  return range(size).map((x) => Math.min(x + steps, size - 1));
}

/** The closest two values in words, or the sensitive ones, and their epsilon. */
function closest({ name, label = (position) => `bin ${position + 1}` }, { limit, sensitive = [], smallest }) {
  const { epsilon } = limit(...smallest), more = sensitive.length - MOST_LISTED;
  const names = sensitive.slice(0, MOST_LISTED).map(label).join(", ") + (more > 0 ? ` and ${more} more` : "");
  return [names ? `one ${name} as for another if one is ${names}` : `${smallest.map(label).join(" as for ")}, the closest two values`, epsilon];
}

/** A decimal number times 100. */
function percent(number) {
  const [digits, rest = ""] = number.split(".");
  return plain(BigInt(digits + rest), rest.length - 2);
}

/**
 * The largest epsilon between a value and no response.
 *
 * A missing response takes the position of the middle, so two fields of a report differ: the
 * value, and whether there is one.
 */
function noResponse(field, response) {
  const { domains: [domain], metric, stochastic } = field, distance = along(field, 0), last = domain.size - 1;
  let far = metric.largest();
  if (stochastic && metric.at) far = distance([BigInt(last), 2n]);
  else if (metric.farthest) far = metric.farthest();
  else if (metric.at && !metric.ring) {
    const middle = domain.position(domain.middle);
    far = larger(distance(middle), distance(last - middle));
  }
  return plus(smaller(far, largestEpsilon(field)), largestEpsilon(response));
}

/** The guarantee of one attribute in one to three sentences. */
function fieldGuarantee(field, response, k) {
  const across = attributeEpsilon(field, k), close = closeValues(field, k), { name } = field.domains[k], memoised = field.distribution.first;
  let text = close
    ? `A report is ${likely(close[1])} for ${close[0]}, and at most ${factor(across)} times for any two.`
    : `A report is ${likely(across)} for one ${name} as for another.`;
  if (memoised)
    text += " This holds for all reports of one response together. Each different response counts again, and reports can reveal that it changed.";
  // Whether there is a response is not memoised.
  if (response) text += ` ${memoised ? "Each report" : "It"} is ${likely(noResponse(field, response))} for a value as for no response.`;
  return `${name}: ${text}`;
}

/**
 * The private fields, each with the field that says whether there is a response, and with the
 * largest epsilon between two respondents: of a new report, and of one whose first randomization is
 * remembered.
 */
function fieldsWithResponses({ fields }) {
  const isResponse = ({ domains }) => domains[0].isResponse;
  return fields.flatMap((field, k) => {
    if (!field.distribution || isResponse(field)) return [];
    const response = fields.find((other) => isResponse(other) && other.domains[0].name === field.name), across = largestEpsilon(field);
    return response
      ? { field, k, response, epsilon: larger(across, noResponse(field, response)), remembered: largestEpsilon(response) }
      : { field, k, epsilon: across, remembered: ZERO };
  });
}

/** The guarantee of each attribute and group, and of all attributes together. */
function sentences(manifest) {
  const all = fieldsWithResponses(manifest), together = all.reduce((sum, { epsilon }) => plus(sum, epsilon), ZERO);
  return [
    ...all.flatMap(({ field, response }) => {
      const names = field.domains.map(({ name }) => name), lines = names.map((_, k) => fieldGuarantee(field, response, k));
      if (names[1]) lines.push(`${names.join(" and ")}: A report is ${likely(largestEpsilon(field))} for one respondent as for another who differs in these attributes alone.`);
      return lines;
    }),
    ...manifest.fields.filter(({ distribution }) => !distribution).map(({ name }) => `${name}: The value is sent without protection.`),
    `All attributes together: A report is ${likely(together)} for one respondent as for another (epsilon ${roundedUp(together)}).`,
  ];
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
  if (!certificate.holds) throw new InvalidManifestError("guarantee", certificate.lines.join("\n"));
  /** Under which name the memory has the first randomization of a memoised field. */
  const keyOf = ({ name }, position) => `${fingerprint} ${position} ${name}`;
  return {
    certificate,
    keyOf,

    /** The position of each field, for a response: an object of values by attribute. */
    positions(response, clip) {
      if (typeof response !== "object" || !response) throw new InvalidValueError("kind", "response");
      const values = new Map(Object.entries(response)), unknown = [...values.keys()].find((name) => !names.includes(name));
      // A misspelt name of an optional attribute would read as no response. The check does not
      // depend on whether there is one.
      if (optional && unknown !== undefined) throw new InvalidValueError("kind", unknown);
      return fields.map(({ domains, position }) => position(domains.map((domain) => domain.position(values.get(domain.name), clip))));
    },

    /**
     * A report in hexadecimal digits. Words that are not uniform give no privacy. The memory, an
     * object, has the first randomizations that a device remembers. It is private and never leaves
     * the device.
     */
    randomize(positions, words, memory) {
      const remembered = {};
      const parts = fields.map((field, k) => {
        const { bits, distribution, stochastic } = field, key = keyOf(field, positions[k]);
        let part = positions[k];
        if (stochastic) part = words.round(part);
        if (distribution?.first && memory) {
          // The first randomization is drawn in any case, so that neither words nor time depend on
          // whether it is remembered.
          const { first, second } = distribution, drawn = first.draw(part, words);
          const once = (remembered[key] = Object.hasOwn(memory, key) ? memory[key] : drawn);
          if (!Number.isInteger(once) || once < 0 || once >= first.outputs) throw new InvalidValueError("memory", field.name);
          part = second.draw(once, words);
        } else if (distribution) part = distribution.draw(part, words);
        if (BigInt(part) >> BigInt(bits)) throw new CertificateError("bits", "a report is outside of its field; no report is sent");
        return part;
      });
      if (memory) Object.assign(memory, remembered);
      return pack(manifest, parts);
    },
  };
}

// client.js
//
// The client: a survey in a browser, with storage, sending, invites and a privacy accountant.
// Browsers, and node from version 19 on. No dependencies. The formats are in docs/formats.md.

const KEY = "metricldp";

/** A copy without a prototype: its keys may be any names, such as "constructor". */
const own = (from) => ({ __proto__: null, ...from });
const epsilonOf = (all) => Object.values(all).reduce((total, { epsilon }) => total + epsilon, 0);

/** A survey that was opened: one respondent's reports, stored until they have arrived. */
function surveyOf(manifest, { store, send, limit }) {
  const { fingerprint, names } = manifest, device = deviceOf(manifest), epsilons = fieldsWithResponses(manifest);
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
      epsilons.reduce((sum, { field, k, epsilon, remembered }) => plus(sum, device.keyOf(field, positions[k]) in memory ? remembered : epsilon), whole(0)),
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
