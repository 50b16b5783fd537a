// The device: a response to the bytes of one report.
//
// All values are checked before the first random word is read. The number of words does not depend
// on the values.

import { integer } from "./canonical.js";
import { CertificateError, InvalidManifestError, InvalidValueError } from "./errors.js";
import { pack } from "./report.js";
import { positionOf } from "./values.js";
import { certify } from "./verify.js";

/**
 * What makes the reports of one respondent.
 *
 * The manifest is verified when the device is made: one that breaks its guarantee throws an
 * InvalidManifestError. `open` compares it with the published fingerprint; else a distributor can
 * give each device a manifest of its own and recognize its reports.
 */
export function deviceOf(manifest) {
  const { fields, fingerprint, names, optional } = manifest, certificate = certify(manifest);
  if (!certificate.holds) throw new InvalidManifestError("guarantee", "the guarantee does not hold");
  /** Under which name the memory has the first randomization of a memoised field. */
  const keyOf = ({ name }, position) => `${fingerprint} ${position} ${name}`;
  return {
    certificate,
    keyOf,

    /** The position of each field, for a response: an object of values by attribute; of a group the flattened cell. */
    positions(response, clip) {
      if (typeof response !== "object" || !response) throw new InvalidValueError("kind", "response");
      const values = new Map(Object.entries(response)), unknown = [...values.keys()].find((name) => !names.includes(name));
      // A misspelt name of an optional attribute would read as no response. The check does not
      // depend on whether there is one.
      if (optional && unknown !== undefined) throw new InvalidValueError("kind", unknown);
      const position = (domain) => positionOf(domain, values.get(domain.name), clip);
      return fields.map(({ domains }) => domains.map(position).reduce((all, one, k) => all * domains[k].size + one));
    },

    /**
     * A report in hexadecimal digits. Words that are not uniform give no privacy. The memory, an
     * object, has the first randomizations that a device remembers. It is private and never leaves
     * the device.
     */
    randomize(positions, words, memory) {
      const remembered = {};
      const parts = fields.map((field, k) => {
        const { bits, distribution, name, stochastic } = field, key = keyOf(field, positions[k]);
        let part = stochastic ? words.round(positions[k]) : positions[k];
        if (distribution?.first && memory) {
          // The first randomization is drawn in any case, so that neither words nor time depend on
          // whether it is remembered.
          const { first, second } = distribution, drawn = first.draw(part, words);
          const once = (remembered[key] = Object.hasOwn(memory, key) ? memory[key] : drawn);
          if (integer(0, first.outputs - 1)(once) === undefined) throw new InvalidValueError("memory", name);
          part = second.draw(once, words);
        } else if (distribution) part = distribution.draw(part, words);
        if (BigInt(part) >> BigInt(bits)) throw new CertificateError("bits", name);
        return part;
      });
      Object.assign(memory || {}, remembered);
      return pack(manifest, parts);
    },
  };
}
