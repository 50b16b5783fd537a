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

import { LARGEST_NUMBER, charge, flag, integer, list, oneOf, ratio, reject, text } from "./canonical.js";
import { accumulate, highest, lowest, prod, range } from "./distributions.js";
import { CERTAIN, ONE, atMost, atMostExp, bitLength, ceilOf, floorOf, logOf, minus, over, plus, smaller, times, toNumber, whole } from "./exact.js";

/** Generating pairs that a manifest lists. */
const MOST_PAIRS = 2 ** 16;
/** Steps in which all shortest paths are computed; longer ones are bounded. */
const MOST_STEPS_OF_PATHS = 2 ** 19;

/** The largest likelihood ratio of a pair: e^epsilon, or 1 + epsilon if `linear`. */
export function limitOf(epsilon, linear) {
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
export const stricter = (limit, other) => (limit.linear ? !other.linear : !other.linear && !atMost(other.epsilon, limit.epsilon));

/** The first of some groups with the smallest limit. */
export const strictest = (groups) => groups.reduce((best, group) => (stricter(group.limit, best.limit) ? group : best));

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
export const metric = (size) => oneOf({ uniform, line, graph, grid }, (made, kind) => ({ ...made, kind }), size);
