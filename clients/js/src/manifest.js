// Manifests: all that a device needs of a survey, as one line of canonical JSON.
//
// A manifest lists the fields of a report. A field has the domains of one attribute, or of several
// that are randomized jointly, the metric that it guarantees and the output distribution that draws
// it, as integers. The fingerprint of a survey is the SHA-256 of its manifest, so an app that states
// the fingerprint accepts no other. A manifest has no text about the guarantee: `guarantee` writes
// it from the numbers.

import { canonical, integer, list, object, reject } from "./canonical.js";
import { MOST_BITS, SUPPORTED, distribution, prod } from "./distributions.js";
import "./levels.js"; // registers its distributions
import { metric } from "./metrics.js";
import { domain } from "./values.js";

export const FORMAT = 1;
const LONGEST_MANIFEST = 2 ** 24;
const MOST_ATTRIBUTES = 1000;

/** One part of a report; a public weight has no metric and no distribution. */
const field = object((entry) => {
  const domains = entry("attributes", list(domain, 1, 8)), [first] = domains, names = domains.map(({ name }) => name).join("+");
  const made = {
    domains,
    /** Whether positions are rounded at random. */
    stochastic: first.stochastic,
    name: first.isResponse ? `${names}=response` : names,
    bits: 64,
    /** The position of the field from those of its attributes: cells are flattened. */
    position: (positions) => positions.reduce((all, position, k) => all * domains[k].size + position),
  };
  if (first.isPublic && domains.length < 2) return made;
  const size = prod(domains.map(({ size }) => size)), special = (one) => one.isResponse || one.isPublic || one.stochastic || one.optional;
  const distributed = entry("distribution", distribution(SUPPORTED)), guaranteed = entry("metric", metric(size));
  if (distributed.size !== size || (domains.length > 1 && domains.some(special)) || !fits(guaranteed, domains)) reject("size");
  return { ...made, bits: distributed.bits, distribution: distributed, metric: guaranteed };
});

/**
 * Whether a metric on positions is one on the values of these attributes.
 *
 * `betweenPoints` and the sentences about the guarantee rely on it.
 */
function fits({ at, grid, kind, ring }, domains) {
  const [{ cyclic, stochastic }, ...others] = domains;
  if (kind === "uniform") return true;
  if (grid || others.length) return others.length && String(grid) === String(domains.map(({ size }) => size));
  return at ? ring === !!cyclic : !stochastic;
}

/** Read a manifest; whatever is unknown, missing or too large throws an error. */
export function parse(text, fingerprint) {
  let data;
  try {
    data = JSON.parse(text.length > LONGEST_MANIFEST || text);
  } catch {
    reject("not JSON");
  }
  const read = object((entry) => entry("metricldp", integer(FORMAT, FORMAT)) && entry("fields", list(field, 1, 2 * MOST_ATTRIBUTES)));
  const fields = read(data) || reject("not an object"), domains = fields.flatMap(({ domains }) => domains);
  const namesOf = (domains) => domains.map(({ name }) => name), sorted = (domains) => namesOf(domains).sort().join("=");
  const responses = domains.filter(({ isResponse }) => isResponse), optional = domains.filter(({ optional }) => optional);
  const names = namesOf(domains.filter(({ isResponse }) => !isResponse)), bits = fields.reduce((all, { bits }) => all + bits, 0);
  if (new Set(names).size < names.length || sorted(optional) !== sorted(responses)) reject("names");
  if (domains.length > 2 * MOST_ATTRIBUTES || fields.every(({ distribution }) => !distribution) || bits > MOST_BITS) reject("fields");
  if (canonical(data) !== text) reject("not in canonical form");
  return { fields, fingerprint, bits, names, optional: !!optional.length };
}
