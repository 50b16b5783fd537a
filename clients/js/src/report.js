// Reports as bytes: a header, then the fields, bit after bit.
//
// The header has the version of the format, one byte, and the first 16 bytes of the fingerprint. The
// fields follow in the order of the manifest, each with its lowest bit first, and zeros up to a
// whole byte.

import { joined } from "./distributions.js";
import { FORMAT } from "./manifest.js";

export const ofHex = (digits) => Uint8Array.from(digits.match(/../g), (pair) => parseInt(pair, 16));
export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, 0)).join("");

/** The bytes of a report from the integers of its fields, in hexadecimal digits. */
export function pack({ bits, fields, fingerprint }, parts) {
  const content = joined(parts, fields.map(({ bits }) => bits)).toString(16).padStart(2 * Math.ceil(bits / 8), 0);
  return toHex([FORMAT]) + fingerprint.slice(0, 32) + toHex(ofHex(content).reverse());
}
