// The proof: the likelihood ratios of the integers in a manifest, compared with its metrics.
//
// For every generating pair of a metric, the largest likelihood ratio of any report is a fraction of
// the very integers that a device compares random words with, or that fraction rounded up. It is
// compared with e^E without rounding. All other pairs follow, because ratios multiply along a path
// as distances add. Fields are drawn from independent words, so the distances of fields add up.
// Nothing that a collector does to reports can undo the guarantee.

import { reject } from "./canonical.js";
import { ALL, DIFFERENCE, lowest } from "./distributions.js";
import { atMost, logOf } from "./exact.js";
import { limitOf } from "./metrics.js";

/** Elementary steps of a proof on a device; manifests that need more are rejected. */
const MOST_STEPS = 2 ** 23;
/** Losses that differ by no more are equal up to rounding. */
const SAME = 1e-12;

/** Compare all likelihood ratios of a manifest with its metrics. */
export function certify({ fields }) {
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
