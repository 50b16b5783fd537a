// Sentences about the guarantee, written from the numbers of a manifest.
//
// A factor says how many times as likely a report can be for one value as for another: e^epsilon of
// the two. Factors and epsilons are rounded up, so no sentence is stronger than the guarantee. There
// is no other source of such sentences: certificates, explanations, consent texts and the page of a
// client all use these.

import { highest, prod, range } from "./distributions.js";
import { CERTAIN, ONE, atMost, ceilOf, decimalOf, expBounds, floorOf, larger, logBound, logOf, minus, over, plus, shifted, smaller, times, toNumber, whole } from "./exact.js";

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
export function largestEpsilon({ metric, distribution, stochastic }) {
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
export function fieldsWithResponses({ fields }) {
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
export function sentences(manifest) {
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
