// Exact comparisons of fractions with powers of e.
//
// A guarantee compares a ratio of integers with e^E for a rational E. e^E is enclosed between two
// fractions, and the enclosure is refined until it decides. This is the only module in which a real
// number meets an integer. A fraction is a pair [n, d] of BigInts with d > 0.

/** Probabilities are integers over this denominator, everywhere. */
export const WORD = 1n << 64n;
/** Binary places to which products of ratios are rounded up. */
const PLACES = 256n;

/** Binary digits of a positive integer; none of 0. */
export const bitLength = (number) => (number ? number.toString(2).length : 0);

/** A whole number as a fraction. */
export const whole = (number) => [BigInt(number), 1n];
export const ONE = whole(1);
/**
 * Stands for this ratio and all above it, and for positions that a report distinguishes with
 * certainty. No distance allows it.
 */
export const CERTAIN = whole(1n << 2048n);

/** The fraction n 10^places / d. */
export const shifted = (n, places, d = 1n) => (places < 0 ? [n, d * 10n ** BigInt(-places)] : [n * 10n ** BigInt(places), d]);

/** The decimal that a double is written as: 0.1 is one tenth, not the nearest binary number. */
export function decimalOf(number) {
  const [digits, exponent = 0] = `${number}`.split("e"), [left, right = ""] = digits.split(".");
  return shifted(BigInt(left + right), exponent - right.length);
}

export const plus = ([a, b], [c, d]) => [a * d + c * b, b * d];
export const minus = (one, [c, d]) => plus(one, [-c, d]);
export const times = ([a, b], [c, d]) => [a * c, b * d];
export const over = (one, [c, d]) => times(one, [d, c]);
export const atMost = ([a, b], [c, d]) => a * d <= c * b;
export const smaller = (one, other) => (atMost(one, other) ? one : other);
export const larger = (one, other) => (atMost(one, other) ? other : one);

/** a / b, CERTAIN if only b is 0. */
export const ratioOf = (a, b) => (b ? [a, b] : a ? CERTAIN : ONE);

/** The larger of a / b and b / a; CERTAIN if just one of them is 0. */
export const quotient = (a, b) => (a < b ? ratioOf(b, a) : ratioOf(a, b));

/** The double next to a fraction: integers are rounded once, with a last bit for the remainder. */
export function toNumber([n, d]) {
  if (n < 0n) return -toNumber([-n, d]);
  const shift = BigInt(Math.max(bitLength(d) - bitLength(n) + 66, 0)), scaled = n << shift, quotient = scaled / d;
  return Number(quotient | BigInt(quotient * d < scaled)) / 2 ** Number(shift);
}

let bounds, boundsOf;

/** Two fractions with lower <= e^exponent <= upper, close to 2^-precision relative. */
export function expBounds([n, d], precision = 256) {
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
export function atMostExp(ratio, exponent, precision = 256) {
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
export function logBound(value) {
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
export const logOf = ([n, d]) => ((n - d) * 4n < d ? Math.log1p(toNumber([n - d, d])) : log(n) - log(d));

function log(number) {
  const shift = Math.max(bitLength(number) - 64, 0);
  return Math.log(Number(number >> BigInt(shift))) + shift * Math.LN2;
}

const bounded = (units) => (units < CERTAIN[0] << PLACES ? units : CERTAIN[0] << PLACES);
const timesUnits = (one, other) => bounded(-((-one * other) >> PLACES));

/** A ratio of at least 1 in units of 2^-256, rounded up, at most CERTAIN. */
export const upper = ([n, d]) => bounded(ceilOf([n << PLACES, d]));

/** ratio^exponent in units of 2^-256, rounded up, at most CERTAIN. */
export function power(ratio, exponent) {
  let result = 1n << PLACES;
  for (; exponent; exponent = Math.floor(exponent / 2)) {
    if (exponent % 2) result = timesUnits(result, ratio);
    ratio = timesUnits(ratio, ratio);
  }
  return result;
}

/** The product of ratios in units of 2^-256, rounded up, at most CERTAIN. */
export const product = (ratios) => [ratios.reduce(timesUnits, 1n << PLACES), 1n << PLACES];

/** The smallest integer that is not below a fraction. */
export const ceilOf = ([n, d]) => -floorOf([-n, d]);

/** The largest integer that is not above a fraction. */
export const floorOf = ([n, d]) => (n < 0n ? -((d - 1n - n) / d) : n / d);
