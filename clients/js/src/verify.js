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

/**
 * Compare all likelihood ratios of a manifest with its metrics.
 *
 * The ratio of the highest and the lowest probability is a bound for all pairs. If the largest
 * distance allows it, all pairs at that distance hold, and one of them is listed.
 */
export function certify({ fields }) {
  let left = MOST_STEPS;
  const proofs = fields.flatMap(({ name, distribution, metric, stochastic }) => {
    if (!distribution) return [];
    const { cost, kind } = distribution, bound = distribution.largestRatio(), pairs = [];
    if (stochastic) metric = metric.betweenPoints?.() ?? metric;
    const { largest } = metric, bounded = limitOf(largest).allows(bound);
    let seen;
    for (const pair of examined(distribution, metric)) {
      if ((left -= cost) < 0) reject(`the proof of ${name} has too many steps`);
      const limit = metric.limit(...pair), far = bounded && !limit.linear && atMost(largest, limit.epsilon);
      if (far && seen) continue;
      seen ||= far;
      const ratio = far ? bound : distribution.ratio(...pair);
      pairs.push({ loss: logOf(ratio), allowed: limit.allowed, holds: far || limit.allows(ratio) });
    }
    // The first pair with the least room up to rounding; one that does not hold comes first.
    const broken = pairs.filter(({ holds }) => !holds), listed = broken[0] ? broken : pairs;
    const rooms = listed.map(({ allowed, loss }) => allowed - loss), least = lowest(rooms) + SAME;
    return { name, kind, ...listed[rooms.findIndex((room) => room <= least)] };
  });
  return { holds: proofs.every(({ holds }) => holds), proofs };
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
