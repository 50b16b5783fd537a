// Manifests: all that a device needs of a survey, as one line of canonical JSON.
//
// A manifest lists the fields of a report. A field has the domains of one attribute, or of several
// that are randomized jointly, the metric that it guarantees and the output distribution that draws
// it, as integers. The fingerprint of a survey is the SHA-256 of its manifest, so an app that states
// the fingerprint accepts no other. A manifest has no text about the guarantee: `guarantee` writes
// it from the numbers.

import { integer, list, object, parsed, reject } from "./canonical.js";
import { MOST_BITS, SUPPORTED, distribution, prod } from "./distributions.js";
import "./levels.js"; // registers its distributions
import { metric } from "./metrics.js";
import { domain } from "./values.js";

export const FORMAT = 1;
const LONGEST_MANIFEST = 2 ** 23;
const MOST_ATTRIBUTES = 1000;

/** One part of a report; a public weight has no metric and no distribution. */
const field = object((entry) => {
  const domains = entry("attributes", list(domain, 1, 8)), [{ isPublic, isResponse, stochastic }, ...others] = domains;
  const name = domains.map(({ name }) => name).join("+") + (isResponse ? "=response" : "");
  if (isPublic && !others[0]) return { domains, name, bits: 64 };
  const size = prod(domains.map(({ size }) => size)), distributed = entry("distribution", distribution(SUPPORTED)), guaranteed = entry("metric", metric(size));
  const special = ({ isPublic, isResponse, optional, stochastic }) => isPublic || isResponse || optional || stochastic;
  if (distributed.size !== size || (others[0] && domains.some(special)) || !fits(guaranteed, domains)) reject("size");
  /** `stochastic`: whether positions are rounded at random. */
  return { domains, name, stochastic, bits: distributed.bits, distribution: distributed, metric: guaranteed };
});

/**
 * Whether a metric on positions is one on the values of these attributes.
 *
 * `betweenPoints` and the sentences about the guarantee rely on it.
 */
function fits({ at, grid, kind, ring }, [{ cyclic, size, stochastic }, ...others]) {
  if (kind === "uniform") return true;
  if (grid || others[0]) return others[0] && `${grid}` === `${[size, ...others.map(({ size }) => size)]}`;
  return at ? ring === !!cyclic : !stochastic;
}

/** Read a manifest; whatever is unknown, missing or too large throws an error. */
export function parse(text, fingerprint) {
  // Code points are counted, of which each has one or two units.
  if ([...text.slice(0, 2 * LONGEST_MANIFEST + 1)].length > LONGEST_MANIFEST) reject("length");
  const data = parsed(text), read = object((entry) => entry("metricldp", integer(FORMAT, FORMAT)) && entry("fields", list(field, 1, 2 * MOST_ATTRIBUTES)));
  const fields = read(data) || reject("JSON"), domains = fields.flatMap(({ domains }) => domains);
  const namesOf = (test) => domains.filter(test).map(({ name }) => name), names = namesOf(({ isResponse }) => !isResponse);
  const optional = namesOf(({ optional }) => optional).sort(), responses = namesOf(({ isResponse }) => isResponse).sort();
  const bits = fields.reduce((all, { bits }) => all + bits, 0);
  const different = (list) => new Set(list).size === list.length;
  if (!different(names) || !different(fields.map(({ name }) => name)) || optional.join("=") !== responses.join("=")) reject("names");
  if (names.length > MOST_ATTRIBUTES || fields.every(({ distribution }) => !distribution) || bits > MOST_BITS) reject("fields");
  if (JSON.stringify(data) !== text) reject("form");
  return { fields, fingerprint, bits, names, optional: optional[0] };
}
