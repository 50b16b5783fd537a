// The proof: the likelihood ratios of the integers in a manifest, compared with its metrics.
//
// For every generating pair of a metric, the largest likelihood ratio of any report is a fraction of
// the very integers that a device compares random words with, or that fraction rounded up. It is
// compared with e^E without rounding. All other pairs follow, because ratios multiply along a path
// as distances add. Fields are drawn from independent words, so the distances of fields add up.
// Nothing that a collector does to reports can undo the guarantee.

import { reject } from "./canonical.js";
import { ALL, DIFFERENCE, lowest } from "./distributions.js";
import { logOf } from "./exact.js";
import { stricter, strictest } from "./metrics.js";

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
export function certify({ fields }) {
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
