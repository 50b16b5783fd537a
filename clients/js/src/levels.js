// Distributions whose probabilities depend on a depth: mixtures of extreme points, additive noise.
//
// A shape assigns a depth, a whole number, to each position. Its level at depth 0 is an integer
// top; the level below t is t fall / 2^64, rounded up. So levels k depths apart have a ratio of at
// most (2^64 / fall)^k, and no level is 0.

import { charge, integer, list, probability, reject } from "./canonical.js";
import { DIFFERENCE, FIRST, MOST_POSITIONS, PROBABILITY, SUPPORTED, accumulate, bisect, bitsFor, highest, lowest, prod, range, tableOf } from "./distributions.js";
import { WORD, larger, quotient } from "./exact.js";

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
