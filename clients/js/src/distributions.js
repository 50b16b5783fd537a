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

import { charge, integer, list, object, oneOf, probability, reject } from "./canonical.js";
import { ONE, WORD, larger, power, product, quotient, ratioOf, times, upper } from "./exact.js";

export const MOST_POSITIONS = 2 ** 20;
/** Bits of a report: 256 kB. */
export const MOST_BITS = 2 ** 21;
/** Entries and ends of windows of the matrix mechanism, either way. */
const LARGEST_ENTRY = 2 ** 31;

const NONE = 0;
export const DIFFERENCE = 1;
export const ALL = 2;

const POSITIONS = integer(2, MOST_POSITIONS);
const POSSIBLE = probability(1n);
export const PROBABILITY = probability(0n);

export const prod = (numbers) => numbers.reduce((all, number) => all * number, 1);
export const highest = (numbers) => numbers.reduce((a, b) => (a < b ? b : a));
export const lowest = (numbers) => numbers.reduce((a, b) => (b < a ? b : a));
export const range = (count) => [...Array(count).keys()];
export const bitsFor = (outcomes) => 32 - Math.clz32(outcomes - 1);

/** The sums of the first numbers, BigInts. */
export const accumulate = (numbers, all = 0n) => numbers.map((number) => (all += number));

/** How many numbers of a rising list are at most this one. */
export function bisect(numbers, number) {
  let low = 0;
  for (let high = numbers.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (number < numbers[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The integer whose parts of so many bits these are, the lowest first. */
export const joined = (parts, bits) =>
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
export function tableOf(weights) {
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
export const distribution = (kinds) =>
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
export const FIRST = { ...BOTH, geometric, table };
const SECOND = { ...BOTH, "lazy-geometric": lazyGeometric };
/** Distributions of a field by kind; `levels` adds two. */
export const SUPPORTED = { ...FIRST, threshold, unary, matrix, memoised };
