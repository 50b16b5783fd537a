// Random integers from a sequence of uniform 64-bit words.
//
// A report is a function of the manifest, the response and these words. Each word is read once, in
// order. Uniform words give the output distributions that `verify` examines; given words give a
// report that can be repeated in any language. A probability is a BigInt p and stands for p / 2^64.

import { bitLength } from "./exact.js";

/** A position that is rounded at random counts in units of 2^-32. */
export let UNITS = 2 ** 32; // not const: minifiers would write it out everywhere

/** Uniform words of the browser, in blocks. */
function fromBrowser() {
  let block = [], next = 0;
  return () => {
    if (next === block.length) {
      block = crypto.getRandomValues(new BigUint64Array(64));
      next = 0;
    }
    return block[next++];
  };
}

/**
 * Random integers for one report at a time. `word` returns the next word; given words have no
 * privacy and are for tests only.
 */
export function wordsOf(word = fromBrowser()) {
  /** A uniform integer of `count` bits: the top bits of a word. 0 bits read no word. */
  const bits = (count) => (count ? word() >> BigInt(64 - count) : 0n);
  return {
    word,
    bits,
    /** 1 with probability p / 2^64, else 0: one word, compared with p. */
    below: (probability) => +(word() < probability),
    /**
     * A uniform integer below `bound`, by rejection.
     *
     * Integers of as many bits as bound - 1 has are drawn, a word each, until one is below it.
     */
    uniform(bound) {
      let number;
      do number = bits(bitLength(bound - 1n));
      while (number >= bound);
      return number;
    },
    /** Round a position in units of 2^-32 at random and without bias: one word. */
    round: (position) => Math.floor(position / UNITS) + (bits(32) < position % UNITS),
  };
}
