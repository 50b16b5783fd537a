// Canonical JSON (RFC 8785), and strict reading of the objects in it.
//
// Equal data have equal text in every language: keys in order, no spaces, no escapes that JSON does
// not require, numbers as JavaScript writes them. Integers of 2^53 and above are text, because not
// every language reads them as numbers.
//
// A check takes a value from JSON and returns what it stands for, or undefined if it is not valid.

import { InvalidManifestError } from "./errors.js";

export const LARGEST_NUMBER = 2 ** 53;
/** Items of all lists of a manifest together, so that it is read in a moment. */
const MOST_ITEMS = 2 ** 19;

let left = 0;

/** Count what takes about as long as to read so many items of a list. */
export function charge(items) {
  left -= items;
  if (left < 0) reject("items");
}

/** The data of a JSON text, of which a new count begins. */
export function parsed(text) {
  left = MOST_ITEMS;
  try {
    return JSON.parse(text);
  } catch {
    return reject("JSON");
  }
}

export function reject(why) {
  throw new InvalidManifestError("manifest", `the manifest is invalid: ${why}`);
}

/**
 * The check of an object: `read` gets a function entry(key, check, absent) that reads a key once.
 *
 * Keys are in order. One that has not been read is rejected, so nothing in a manifest is ignored.
 */
export const object = (read) => (data) => {
  if (!data || typeof data !== "object" || Array.isArray(data)) return;
  const rest = new Map(Object.entries(data)), keys = [...rest.keys()];
  const result = read((key, check, absent) => {
    const raw = rest.get(key);
    if (Array.isArray(raw)) charge(raw.length);
    const value = rest.delete(key) ? check(raw) : absent;
    return value ?? reject(key);
  });
  if (rest.size || `${keys}` !== `${keys.sort()}`) reject(`keys ${keys}`);
  return result;
};

/** The check of an object that `kinds` read, by its entry `kind`; any other is rejected by name. */
export const oneOf = (kinds, complete, size) =>
  object((entry) => {
    const kind = entry("kind", textLine), read = Object.hasOwn(kinds, kind) ? kinds[kind] : reject(`${kind} is not supported`);
    return complete(read(entry, size), kind, entry);
  });

export const list = (check, least, most) => (values) => {
  if (!Array.isArray(values) || values.length < least || values.length > most) return;
  const read = values.map(check);
  return read.includes(undefined) ? undefined : read;
};

export const text = (value) => (typeof value === "string" ? value : undefined);

/**
 * A line of text: not blank, and without controls, surrogates, separators of lines and controls of
 * writing direction. No later version of Unicode changes these sets.
 */
export const textLine = (value) =>
  text(value) && /\P{Zs}/u.test(value) && !/[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u.test(value) ? value : undefined;

/** A key that is there only if it is true. */
export const flag = (value) => value === true || undefined;

export const integer = (least, most) => (number) => (Number.isInteger(number) && number >= least && number <= most ? number : undefined);

export const double = (number) => (typeof number === "number" && Math.abs(number) <= 1e300 ? number : undefined);

/** 16 hexadecimal digits. */
export const probability = (least) => (digits) => {
  const probability = /^[\da-f]{16}$/.test(text(digits)) ? BigInt("0x" + digits) : -1n;
  return probability >= least ? probability : undefined;
};

/** A positive fraction in lowest terms, at most 2^40, as text such as 3/2. */
export function ratio(value) {
  charge((text(value) || "").length >> 4);
  if (!/^[1-9]\d{0,1999}(\/[1-9]\d{0,1999})?$/.test(text(value))) return;
  const [n, d = 1n] = value.split("/").map(BigInt);
  return value.endsWith("/1") || gcd(n, d) > 1n || n > d << 40n ? undefined : [n, d];
}

const gcd = (a, b) => (b ? gcd(b, a % b) : a);
