// Sentences about the guarantee, written from the numbers of a manifest.
//
// A factor says how many times as likely a report can be for one value as for another: e^epsilon of
// the two. Factors and epsilons are rounded up, so no sentence is stronger than the guarantee. There
// is no other source of such sentences: certificates, explanations, consent texts and the page of a
// client all use these.
//
// Values are decimals of at most 15 digits. Values that are rounded at random to points count as
// multiples of 2^-32 of the step between points, to which the device rounds them first.

import { highest, prod, range } from "./distributions.js";
import { CERTAIN, ONE, atMost, ceilOf, decimalOf, expBounds, floorOf, larger, logBound, logOf, minus, over, plus, shifted, smaller, times, toNumber, whole } from "./exact.js";
import { strictest } from "./metrics.js";
import { UNITS } from "./random_words.js";
import { label, positionOf } from "./values.js";

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
export function fieldsWithResponses({ fields }) {
  const responseTo = (name) => fields.find(({ domains: [only] }) => only.isResponse && only.name === name);
  return fields.flatMap((field, k) =>
    field.distribution && !field.domains[0].isResponse ? { field, k, guarantee: guaranteeOf(field, responseTo(field.name)) } : [],
  );
}

/** The guarantee of each attribute and group, and of all attributes together. */
export function sentences(manifest) {
  const all = fieldsWithResponses(manifest), together = all.map(({ guarantee }) => guarantee.epsilon()).reduce(plus);
  const lines = all.flatMap(({ field: { domains }, guarantee }) => {
    const group = domains.map(({ name }) => name).join(" and "), each = domains.map(guarantee.sentences);
    return domains[1] ? [...each, `${group}: A report is ${likely(guarantee.across)} for one respondent as for another who differs in these attributes alone.`] : each;
  });
  for (const { distribution, name } of manifest.fields) if (!distribution) lines.push(`${name}: The value is sent without protection.`);
  const which = manifest.fields.every(({ distribution }) => distribution) ? "All" : "All private";
  return [...lines, `${which} attributes together: A report is ${likely(together)} for one respondent as for another (epsilon ${roundedUp(together)}).`];
}
