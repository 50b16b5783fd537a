// A second client, by docs/formats.md: it knows nothing of the package.
"use strict";
const crypto = require("crypto");

const ONE = 1n << 64n;
const hex = (text) => BigInt("0x" + text);
const digits = (number) => (number === 0n ? 0 : number.toString(2).length);
const bitsFor = (outcomes) => digits(BigInt(outcomes) - 1n);
const odd = (number) => (number.toString(2).split("1").length - 1) % 2 === 1;

class Refused extends Error {}
const refuse = (word) => { throw new Refused(word); };

// The tape

class Tape {
  constructor(text) { [this.words, this.used] = [(text.match(/.{16}/g) || []).map(hex), 0]; }
  word() {
    if (this.used === this.words.length) throw new Error("the tape is used up");
    return this.words[this.used++];
  }
  integer(bits) { return Number(bits) === 0 ? 0n : this.word() >> (64n - BigInt(bits)); }
  toss(threshold) { return this.word() < threshold; }
  uniform(bound) {
    let drawn;
    do drawn = this.integer(digits(bound - 1n)); while (drawn >= bound);
    return drawn;
  }
  rounded(position) {
    const rest = position & 0xffffffffn;
    return (position >> 32n) + (this.integer(32) < rest ? 1n : 0n);
  }
  lanes(threshold, count) {
    const all = (1n << BigInt(count)) - 1n;
    if (threshold === 0n || threshold === ONE) return threshold ? all : 0n;
    let below = 0n, open = all;
    for (let place = 63n; place >= 0n; place--) {
      let drawn = 0n;
      for (let k = 0; 64 * k < Number(count); k++) drawn |= this.word() << BigInt(64 * k);
      if ((threshold >> place) & 1n) {
        below |= open & ~drawn;
        open &= drawn;
      } else open &= ~drawn;
      if (open === 0n || (threshold & ((1n << place) - 1n)) === 0n) break;
    }
    return below & all;
  }
}

// Laws: the bits of a field, how it is drawn, and whether a device could send it

const below = (limit) => ({ bits: bitsFor(limit), possible: (field) => field < BigInt(limit) });

function geometric(law) {
  const size = BigInt(law.size), length = 1n << BigInt(law.digits.length);
  const [zero, block] = [hex(law.zero), hex(law.block)];
  const draw = (x, tape) => {
    let g = 1n;
    law.digits.forEach((digit, j) => { if (tape.toss(hex(digit))) g += 1n << BigInt(j); });
    for (let k = 0n; k <= size / length && tape.toss(block); k++) g += length;
    const negative = tape.integer(1) === 1n, none = tape.toss(zero);
    const y = none ? x : negative ? x - g : x + g;
    return y < 0n ? 0n : y >= size ? size - 1n : y;
  };
  return { ...below(law.size), draw };
}

function response(law) {
  const size = BigInt(law.size), keep = hex(law.keep);
  const draw = (x, tape) => {
    const kept = tape.toss(keep), moved = 1n + tape.uniform(size - 1n);
    return kept ? x : (x + moved) % size;
  };
  return { ...below(law.size), draw };
}

const withBit = (number, k, bit) => (number & ~(1n << k)) | (bit ? 1n << k : 0n);
const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
function depthsOf(text) {
  const two = text[0] === ":", found = [...(two ? text.slice(1) : text)].map((d) => DIGITS.indexOf(d));
  return two ? found.flatMap((d, k) => (k % 2 ? [62 * found[k - 1] + d] : [])) : found;
}

function levelsOf({ depths, tops, fall }) {
  return depths.map((shape, k) => {
    const levels = [hex(tops[k])];
    const list = typeof shape === "string" ? depthsOf(shape) : shape;
    while (levels.length <= Math.max(...list))
      levels.push((levels.at(-1) * hex(fall) + (1n << 64n) - 1n) >> 64n);
    return list.map((depth) => levels[depth]);
  });
}

const LAWS = {
  geometric,
  response,
  threshold(law) {
    const draw = (x, tape) =>
      ((1n << BigInt(law.bits)) - (1n << x)) ^ tape.lanes(hex(law.flip), law.bits);
    return { bits: law.bits, possible: () => true, draw };
  },
  unary(law) {
    const draw = (x, tape) => {
      let field = 0n;
      for (const q of new Set(law.other)) {
        const places = law.other.flatMap((other, k) => (other === q ? [BigInt(k)] : []));
        const drawn = tape.lanes(hex(q), places.length);
        places.forEach((place, i) => { field |= ((drawn >> BigInt(i)) & 1n) << place; });
      }
      return withBit(field, x, tape.toss(hex(law.own[Number(x)])));
    };
    return { bits: law.size, possible: () => true, draw };
  },
  matrix(law) {
    const rows = law.rows.map((row) => {
      const entries = [];
      for (let k = 0; k < row.runs.length; k += 2)
        for (let n = 0; n < row.runs[k + 1]; n++) entries.push(BigInt(row.runs[k] - row.low));
      return { ...geometric(row), entries };
    });
    let bits = 0;
    for (const row of rows) { row.start = BigInt(bits); bits += row.bits; }
    const draw = (x, tape) =>
      rows.reduce((field, r) => field | (r.draw(r.entries[Number(x)], tape) << r.start), 0n);
    const part = (field, row) => (field >> row.start) & ((1n << BigInt(row.bits)) - 1n);
    return { bits, draw, possible: (field) => rows.every((row) => row.possible(part(field, row))) };
  },
  shaped(law) {
    const patterns = levelsOf(law), n = patterns[0].length, J = patterns.length;
    const draw = (x, tape) => {
      const j = Number(tape.integer(bitsFor(J)));
      let left = tape.uniform(patterns[j].reduce((a, b) => a + b, 0n)), d = 0;
      while (left >= patterns[j][d]) left -= patterns[j][d++];
      return BigInt(j * n + ((Number(x) + d) % n));
    };
    return { ...below(J * n), draw };
  },
  shapes(law) {
    const columns = levelsOf(law);
    const weights = Array.from({ length: law.size }, (_, x) => {
      const row = columns.map((column) => column[x]);
      return [...row, row.reduce((left, weight) => left - weight, 1n << 64n)];
    });
    return LAWS.table({ weights: weights.map((row) => row.map((weight) => weight.toString(16))) });
  },
  memoised(law) {
    const [first, second] = [law.first, law.second].map((part) => LAWS[part.law](part));
    const draw = (x, tape, keep = (y) => y) => second.draw(keep(first.draw(x, tape)), tape);
    return { ...second, draw };
  },
  table(law) {
    const rows = law.weights.map((row) => row.map(hex));
    const draw = (x, tape) => {
      let left = tape.integer(64), y = 0;
      while (left >= rows[Number(x)][y]) left -= rows[Number(x)][y++];
      return BigInt(y);
    };
    return { ...below(rows[0].length), draw };
  },
  hadamard(law) {
    const K = 1n << BigInt(digits(BigInt(law.size)));
    const draw = (x, tape) => {
      const kept = tape.toss(hex(law.keep)), d = tape.uniform(K), r = x + 1n;
      return !odd(r & d) === kept ? d : d ^ (r & -r);
    };
    return { ...below(K), draw };
  },
  "local-hashing"(law) {
    const P = BigInt(law.prime), g = BigInt(law.buckets);
    const inner = response({ size: law.buckets, keep: law.keep });
    const draw = (x, tape) => {
      const h = tape.uniform(P ** 3n), a = h / P ** 2n, b = (h / P) % P, c = h % P;
      return h * g + inner.draw(((a * x * x + b * x + c) % P) % g, tape);
    };
    return { ...below(P ** 3n * g), draw };
  },
  subset(law) {
    const m = BigInt(law.size), one = (field) => (field ? (field & 1n) + one(field >> 1n) : 0n);
    const draw = (x, tape) => {
      const kept = tape.toss(hex(law.keep)), moves = [];
      for (let k = 1n; k < m; k++) moves.push(k);
      for (let k = 0; k < law.ones; k++) {
        const at = k + Number(tape.uniform(m - 1n - BigInt(k)));
        [moves[k], moves[at]] = [moves[at], moves[k]];
      }
      if (kept) moves[law.ones - 1] = 0n;
      return moves.slice(0, law.ones).reduce((field, k) => field | (1n << (x + k) % m), 0n);
    };
    return { bits: law.size, draw, possible: (field) => one(field) === BigInt(law.ones) };
  },
  levels(law) {
    const orders = law.counts.map((count) => 1n << BigInt(bitsFor(count)));
    const starts = orders.map((_, l) => 2n * orders.slice(0, l).reduce((a, b) => a + b, 0n));
    const draw = (x, tape) => {
      const l = Number(tape.uniform(BigInt(orders.length)));
      const j = tape.integer(bitsFor(orders[l])), kept = tape.toss(hex(law.keep));
      let v = x / BigInt(law.widths[l]), m = false;
      if (law.halves) { m = v % 2n === 1n; v /= 2n; }
      if (odd(v & j) === kept) m = !m;
      return starts[l] + (m ? orders[l] : 0n) + j;
    };
    return { ...below(2n * orders.reduce((a, b) => a + b, 0n)), draw };
  },
  "level-bits"(law) {
    const size = BigInt(law.size), levels = law.counts.length;
    const draw = (x, tape) => {
      const l = tape.uniform(BigInt(levels)), at = Number(l);
      const b = tape.lanes(hex(law.other), law.counts[at]);
      return withBit(b, x / BigInt(law.widths[at]), tape.toss(1n << 63n)) + (l << size);
    };
    const possible = (field) => {
      const l = Number(field >> size), b = field & ((1n << size) - 1n);
      return l < levels && b >> BigInt(law.counts[l]) === 0n;
    };
    return { bits: law.size + bitsFor(levels), possible, draw };
  },
};

// From a value to a position

const view = new DataView(new ArrayBuffer(8));
const doubleBits = (number) => (view.setFloat64(0, number), view.getBigUint64(0));
const doubleOf = (bits) => (view.setBigUint64(0, bits), view.getFloat64(0));

function halfEven(number) {
  const floor = Math.floor(number), rest = number - floor;
  return BigInt(rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor);
}

const missing = (value) =>
  value === undefined || value === null || (typeof value === "string" && value.trim() === "");

const ends = ({ edges, low, high }) => (edges ? [edges[0], edges.at(-1)] : [low, high]);

function middle({ kind, levels, categories, ...rest }) {
  const [low, high] = ends(rest);
  const names = levels || categories;
  if (names) return names[Math.floor(names.length / 2)];
  return low + (kind === "integer" ? Math.floor((high - low + 1) / 2) : (high - low) / 2);
}

function position(attribute, value, clip) {
  const { kind, edges } = attribute, [low, high] = ends(attribute);
  if (kind === "answered") return missing(value) ? 0n : 1n;
  if (missing(value)) value = "optional" in attribute ? middle(attribute) : refuse("missing");
  const names = attribute.levels || attribute.categories;
  if (names) {
    if (!["string", "boolean"].includes(typeof value) && !Number.isInteger(value)) refuse("kind");
    const found = names.indexOf(String(value));
    return found < 0 ? refuse("name") : BigInt(found);
  }
  if (kind === "integer" && low === 0 && high === 1 && typeof value === "boolean") value = +value;
  if (typeof value !== "number") refuse("kind");
  if (kind === "integer" && !Number.isInteger(value)) refuse("whole");
  if (clip) value = Math.min(Math.max(value, low), high);
  if (!(low <= value && value <= high)) refuse("range");
  if (kind === "integer") return BigInt(value) - BigInt(low);
  if (kind === "continuous") {
    const lower = (k) => (edges ? edges[k] : k * ((high - low) / attribute.bins) + low);
    let k = edges ? edges.length - 2 : attribute.bins - 1;
    while (lower(k) > value) k--;
    return BigInt(k);
  }
  if (kind === "weight" && !attribute.private) return doubleBits(value);
  if (kind === "weight") return halfEven(((value - low) / (high - low)) * 2 ** 32);
  const s = ((value - low) / (high - low)) * (attribute.points - 1);
  const w = Math.min(Math.floor(s), attribute.points - 2), r = halfEven((s - w) * 2 ** 32);
  return BigInt(w) * (1n << 32n) + (r > 1n << 32n ? 1n << 32n : r < 0n ? 0n : r);
}

// The survey, and the bytes of a report

class Client {
  constructor(text, fingerprint) {
    const found = crypto.createHash("sha256").update(text, "utf8").digest("hex");
    if (found !== fingerprint) throw new Error("this is another survey");
    const survey = JSON.parse(text);
    const joint = new Map(), blocks = survey.joint.filter((block) => block.law.law === "cells");
    if (survey.joint.length > blocks.length) refuse("other joint mechanisms are not known here");
    for (const block of blocks) block.attributes.forEach((name) => joint.set(name, block));
    this.header = "02" + fingerprint.slice(0, 32);
    const halves = ({ name }) => ({ kind: "answered", name, law: `${name}=answered` });
    const attributes = survey.attributes.flatMap((a) => ("optional" in a ? [a, halves(a)] : [a]));
    this.parts = attributes.flatMap((attribute) => {
      const block = joint.get(attribute.name);
      if (block) {
        if (block.attributes[0] !== attribute.name) return [];
        const own = block.attributes.map((name) => attributes.find((a) => a.name === name));
        return { ...LAWS[block.law.of.law](block.law.of), own, strides: block.law.strides };
      }
      const own = [attribute], strides = [1];
      const inside = (x) => attribute.low <= x && x <= attribute.high;
      if (attribute.kind === "weight" && !attribute.private)
        return { own, strides, bits: 64, possible: (f) => inside(doubleOf(f)), draw: (x) => x };
      const law = survey.laws[attribute.law || attribute.name], made = LAWS[law.law](law);
      const rounds = attribute.kind === "real" || attribute.kind === "weight";
      const draw = (x, tape, keep) => made.draw(rounds ? tape.rounded(x) : x, tape, keep);
      const marks = law.law === "memoised" ? (x) => `${fingerprint} ${x} ${attribute.name}` : null;
      return { ...made, own, strides, draw, marks };
    });
    this.bits = this.parts.reduce((sum, part) => sum + part.bits, 0);
    this.bytes = Math.ceil(this.bits / 8);
  }
  report(person, tape, clip, memory) {
    const at = ({ own, strides }) => own.reduce((sum, attribute, d) =>
      sum + position(attribute, person[attribute.name], clip) * BigInt(strides[d]), 0n);
    const places = this.parts.map(at);
    let fields = 0n, start = 0;
    this.parts.forEach((part, k) => {
      const mark = memory && part.marks && part.marks(places[k]);
      const keep = (y) => BigInt((memory[mark] ??= Number(y))); // a first blur is drawn once
      fields |= part.draw(places[k], tape, mark ? keep : undefined) << BigInt(start);
      start += part.bits;
    });
    const body = Buffer.from(fields.toString(16).padStart(2 * this.bytes, "0"), "hex").reverse();
    return this.header + body.toString("hex");
  }
  check(report) {
    if (report && report.slice(0, 2) !== "02") refuse("version");
    if (report.length >= 34 && report.slice(0, 34) !== this.header) refuse("survey");
    if (report.length !== 34 + 2 * this.bytes) refuse("length");
    let fields = BigInt("0x0" + Buffer.from(report.slice(34), "hex").reverse().toString("hex"));
    if (fields >> BigInt(this.bits)) refuse("padding");
    for (const part of this.parts) {
      if (!part.possible(fields & ((1n << BigInt(part.bits)) - 1n))) refuse("range");
      fields >>= BigInt(part.bits);
    }
  }
}

module.exports = { Client, LAWS, Refused, Tape, hex };
