// metricldp: answers to a survey, blurred on the device. The formats are in docs/formats.md.
// Browsers, and node from version 19 on. No dependencies.

const WORD = 2 ** 32;
const ONE = 1n << 64n;
const KEY = "metricldp";

const refuse = (reason, message = reason) => {
  throw Object.assign(Error(message), { name: "Refused", reason });
};
const big = (hex) => BigInt("0x" + hex);
/** A probability over 2^64 as two halves; of 2^64 itself the upper one is 2^32. */
const halves = (hex) => [parseInt(hex.slice(0, -8), 16), parseInt(hex.slice(-8), 16)];
/** How many binary digits numbers below this one need. */
const bitsFor = (outcomes) => (outcomes > 1 ? (BigInt(outcomes) - 1n).toString(2).length : 0);
const ofHex = (text) => Uint8Array.from(text.match(/../g) || [], (two) => parseInt(two, 16));
const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, 0)).join("");
const sum = (list) => list.reduce((a, b) => a + b, 0);

// The tape: 64-bit words, each read once, as two halves ---------------------------------------

class Tape {
  /** Fair words; or, in tests, those given, upper half first. */
  constructor(given) {
    this.words = given || [];
    this.given = given;
    this.at = 0;
  }
  /** The next word: returns its upper half and leaves the lower one in `low`. */
  word() {
    if (this.at === this.words.length) {
      if (this.given) throw Error("the tape is used up");
      this.words = crypto.getRandomValues(new Uint32Array(128));
      this.at = 0;
    }
    this.low = this.words[this.at + 1];
    this.at += 2;
    return this.words[this.at - 2];
  }
  integer(bits) {
    return bits ? ((BigInt(this.word()) << 32n) | BigInt(this.low)) >> BigInt(64 - bits) : 0n;
  }
  toss([high, low]) {
    const drawn = this.word();
    return drawn < high || (drawn === high && this.low < low);
  }
  uniform(bound, bits = bitsFor(bound)) {
    let drawn;
    do drawn = this.integer(bits);
    while (drawn >= bound);
    return drawn;
  }
  /** A position in units of 2^-32 to a whole one. */
  rounded(position) {
    const whole = Math.floor(position / WORD);
    return whole + (this.word() < position - whole * WORD);
  }
  /** Many tosses at once, 32 in each number. */
  lanes([high, low], count) {
    const below = new Uint32Array(2 * Math.ceil(count / 64));
    const open = below.map((_, k) => (count < 32 * k + 32 ? 2 ** Math.max(0, count - 32 * k) - 1 : -1));
    if (high === WORD) return open;
    for (let left = 1; left && (high || low); ) {
      const one = high >>> 31;
      high = ((high << 1) | (low >>> 31)) >>> 0; // the digits that are left
      low = (low << 1) >>> 0;
      left = 0;
      for (let k = 0; k < open.length; k += 2) {
        let drawn = one ? this.word() : ~this.word();
        for (const at of [k + 1, k]) {
          if (one) below[at] |= open[at] & ~drawn;
          left |= open[at] &= drawn;
          drawn = one ? this.low : ~this.low;
        }
      }
    }
    return below;
  }
}

// Exact numbers of a proof: fixed point, 320 binary digits behind the point, rounded up --------

const POINT = 320n;
const UNIT = 1n << POINT;
const above = (a, b) => (a + b - 1n) / b;
/** a / b or b / a, whichever is larger; beyond all bounds where one of them is 0. */
const ratioOf = (a, b) => (a < b ? ratioOf(b, a) : a === b ? UNIT : b > 0n ? above(a << POINT, b) : UNIT << 9999n);
const times = (a, b) => above(a * b, UNIT);
const most = (a, b) => (a > b ? a : b);
function power(base, exponent) {
  let result = UNIT;
  for (; exponent; exponent = Math.floor(exponent / 2)) {
    if (exponent % 2) result = times(result, base);
    base = times(base, base);
  }
  return result;
}
const fraction = (text) => (text + "/1").split("/", 2).map(BigInt);
/** At most e^(a/b): Taylor's series of a small part, cut off, and squared again. */
function exponential(a, b) {
  const halvings = BigInt(bitsFor(a / b + 2n) + 8), scale = POINT + 2n * halvings + 16n;
  let total = 1n << scale;
  for (let term = total, k = 1n; term; k++) total += term = (term * a) / (k * (b << halvings));
  for (let k = halvings; k; k--) total = (total * total) >> scale;
  return total >> (scale - POINT);
}
const log = (fixed) => {
  const text = fixed.toString(16);
  return Math.log(parseInt(text.slice(0, 20), 16)) + (4 * Math.max(0, text.length - 20) - 320) * Math.LN2;
};

// Laws: `draw` calls put(number, bits) for what is sent. `ratio` of two positions is the worst of
// any report, or a bound. `alike`: the same for every pair. `shift`: by their difference alone.

const LAWS = {
  threshold({ bits, flip }) {
    const ratio = ratioOf(ONE - big(flip), big(flip));
    return {
      shift: 1,
      bits,
      draw: (x, tape, put) =>
        tape.lanes(halves(flip), bits).forEach((flips, k) => {
          const from = x - 32 * k;
          put((flips ^ (from > 31 ? 0 : -(2 ** Math.max(0, from)))) >>> 0, Math.min(32, bits - 32 * k));
        }),
      ratio: (x, other) => power(ratio, Math.abs(x - other)),
    };
  },
  geometric({ size, zero, digits, block }) {
    const length = 2 ** digits.length, bits = bitsFor(size);
    // The worst step of the noise: from g to g + 1, where digits carry, and from 0 to 1.
    let step = UNIT, ones = 1n, zeros = 1n, whole = ONE;
    for (const hex of digits) {
      const one = big(hex);
      step = most(step, ratioOf(zeros * one, ones * (ONE - one)));
      [ones, zeros, whole] = [ones * one, zeros * (ONE - one), whole * ONE];
    }
    step = most(step, ratioOf(zeros * big(block), ones * ONE));
    step = most(step, ratioOf(2n * big(zero) * whole, (ONE - big(zero)) * (ONE - big(block)) * zeros));
    return {
      shift: 1,
      bits,
      draw(x, tape, put) {
        let g = 1, k = 0;
        digits.forEach((hex, j) => (g += tape.toss(halves(hex)) * 2 ** j));
        for (; k <= Math.floor(size / length) && tape.toss(halves(block)); k++) g += length;
        if (tape.word() >>> 31) g = -g;
        if (tape.toss(halves(zero))) g = 0;
        put(Math.min(Math.max(x + g, 0), size - 1), bits);
      },
      ratio: (x, other) => power(step, Math.abs(x - other)),
    };
  },
  response({ size, keep }) {
    const others = BigInt(size - 1), bits = bitsFor(size);
    return {
      alike: 1,
      bits,
      draw(x, tape, put) {
        const stays = tape.toss(halves(keep)), moved = 1 + Number(tape.uniform(others));
        put(stays ? x : (x + moved) % size, bits);
      },
      ratio: () => ratioOf(big(keep) * others, ONE - big(keep)),
    };
  },
  unary({ size, own, other }) {
    const bits = own.map((hex, k) => {
      const p = big(hex), q = big(other[k]), tells = [ratioOf(p, q), ratioOf(ONE - p, ONE - q)];
      return p < q ? tells.reverse() : tells; // for its value, and against it
    });
    const kinds = new Set(other);
    return {
      alike: kinds.size * new Set(own).size < 2,
      bits: size,
      draw(x, tape, put) {
        const field = [];
        for (const q of kinds) {
          const places = [...other.keys()].filter((k) => other[k] === q);
          const lanes = tape.lanes(halves(q), places.length);
          places.forEach((place, i) => (field[place] = (lanes[i >>> 5] >>> i) & 1));
        }
        field[x] = +tape.toss(halves(own[x]));
        field.forEach((bit) => put(bit, 1));
      },
      ratio: (x, y) => most(times(bits[x][0], bits[y][1]), times(bits[y][0], bits[x][1])),
    };
  },
  matrix({ rows }) {
    const parts = rows.map((row) => {
      const entries = [];
      row.runs.forEach((entry, k) => {
        if (k % 2) for (let n = entry; n; n--) entries.push(row.runs[k - 1] - row.low);
      });
      return { ...LAWS.geometric(row), entries };
    });
    return {
      bits: sum(parts.map(({ bits }) => bits)),
      draw: (x, tape, put) => parts.forEach(({ draw, entries }) => draw(entries[x], tape, put)),
      ratio: (x, y) =>
        parts.reduce((all, { entries: at, ratio }) => (at[x] === at[y] ? all : times(all, ratio(at[x], at[y]))), UNIT),
    };
  },
  table({ weights }, row = (x) => weights[x].map(big)) {
    const bits = bitsFor(row(0).length), rows = [], logs = [];
    const known = (x) => (logs[x] ||= (rows[x] = row(x)).map((weight) => Math.log(Number(weight))));
    return {
      bits,
      draw(x, tape, put) {
        let left = tape.integer(64), y = 0;
        for (const weight of row(x)) {
          if (left < weight) break;
          left -= weight;
          y++;
        }
        put(y, bits);
      },
      /** Floats find the reports that can be the worst, whole numbers decide. */
      ratio(x, other) {
        const there = known(other), apart = known(x).map((here, y) => Math.abs(here - there[y]) || 0);
        const near = apart.reduce((a, b) => Math.max(a, b)) - 1e-9;
        return apart.reduce((worst, far, y) => (far < near ? worst : most(worst, ratioOf(rows[x][y], rows[other][y]))), UNIT);
      },
    };
  },
  shapes(law) {
    const columns = levelsOf(law);
    return LAWS.table(law, (x) => {
      const row = columns.map((column) => column.at(x));
      return [...row, row.reduce((left, weight) => left - weight, ONE)];
    });
  },
  shaped(law) {
    const patterns = levelsOf(law), n = patterns[0].list.length, bits = bitsFor(patterns.length * n);
    const sums = patterns.map(({ at, list }) => list.map(((total) => (_, d) => (total += at(d)))(0n)));
    const found = [];
    return {
      shift: 1,
      bits,
      draw(x, tape, put) {
        const j = Number(tape.integer(bitsFor(sums.length))), left = tape.uniform(sums[j][n - 1]);
        let low = 0, high = n - 1;
        while (low < high) {
          const middle = (low + high) >> 1;
          if (left < sums[j][middle]) high = middle;
          else low = middle + 1;
        }
        put(j * n + ((x + low) % n), bits);
      },
      ratio(x, other) {
        const apart = Math.abs(other - x);
        return (found[apart] ||= patterns.reduce((worst, { at, list }) => {
          const seen = {};
          list.forEach((depth, d) => {
            const next = (d + apart) % n, code = [depth, list[next]].sort();
            seen[code] ||= worst = most(worst, ratioOf(at(d), at(next)));
          });
          return worst;
        }, UNIT));
      },
    };
  },
  cells: ({ of }) => lawOf(of),
  /** A first blur, that is kept for each value, and a second one of it for each report. */
  memoised(law) {
    const first = lawOf(law.first), second = lawOf(law.second);
    return { ...first, first, second, bits: second.bits };
  },
};

const lawOf = (law) => (Object.hasOwn(LAWS, law.law) ? LAWS[law.law](law) : refuse("law", "unknown law " + law.law));

/** The depths of each pattern or shape, and its level at each place. */
const levelsOf = ({ depths, tops, fall }) =>
  depths.map((list, k) => {
    if (list.at(0).at) {
      // digits and letters: 36 in order, then capitals
      const code = [...list].map((digit) => parseInt(digit, 36) + 26 * (digit < "a" && digit > "9"));
      list = list[0] === ":" ? code.flatMap((digit, at) => (at && !(at % 2) ? 62 * code[at - 1] + digit : [])) : code;
    }
    const levels = [big(tops[k])];
    for (const deepest = list.reduce((a, b) => Math.max(a, b)); levels.length <= deepest; )
      levels.push((levels.at(-1) * big(fall) + ONE - 1n) >> 64n);
    return { list, at: (place) => levels[list[place]] };
  });

// From a value to a position ----------------------------------------------------------------------

const halfEven = (number) => {
  const floor = Math.floor(number), rest = number - floor;
  return floor + (rest > 0.5 || (rest === 0.5 && floor % 2 > 0));
};
const missing = (value) => (value ?? NaN) !== value || !String(value).trim();

/** A position; in units of 2^-32 where it is rounded at random; of a public weight the number. */
function position({ name, kind, names, edges, bins, points, low = edges?.[0], high = edges?.at(-1), ...of }, value, clip) {
  const no = (reason) => refuse(reason, name + ": this answer is refused, " + reason);
  const whole = kind === "integer", share = (most) => ((value - low) / (high - low)) * most;
  if (kind === "answered") return +!missing(value);
  if (missing(value)) {
    if (!of.optional) no("missing");
    value = names ? names[names.length >> 1] : low + (whole ? Math.floor((high - low + 1) / 2) : (high - low) / 2);
  } else if (typeof value === "boolean" && whole && !low && high === 1) value = +value;
  if (names) {
    const found = names.indexOf(String(value));
    return typeof value === "object" || (value === +value && value % 1) ? no("kind") : found < 0 ? no("name") : found;
  }
  if (!Number.isFinite(value)) no("kind");
  if (whole && value % 1) no("whole");
  if (clip && !of.cyclic) value = Math.min(Math.max(value, low), high);
  if (value < low || value > high) no("range");
  if (whole) return value - low;
  if (kind === "continuous") {
    let k = edges ? edges.length - 2 : Math.min(bins - 1, Math.ceil(share(bins)) + 1);
    while (k && (edges ? edges[k] : k * ((high - low) / bins) + low) > value) k--;
    return k;
  }
  if (kind === "weight") return of.private ? halfEven(share(WORD)) : value;
  const at = share(points - 1), left = Math.min(Math.floor(at), points - 2);
  return left * WORD + Math.min(Math.max(halfEven((at - left) * WORD), 0), WORD);
}

// The proof ---------------------------------------------------------------------------------------

/** The worst ratio of the pairs at each distance, held against e to that distance. */
function prove({ law, metric: said, made, random }) {
  const { metric, places, pairs, steps, sizes, along, numbers, around, cap } = said;
  const [a, b] = fraction(said.step), [w, parts] = fraction(said.width || 1), never = cap && fraction(cap);
  const worst = new Map();
  const look = (x, y, far) => worst.set(far, most(worst.get(far) || UNIT, made.ratio(x, y)));
  // Values that are rounded at random to points of a grid: a window reaches one point more.
  const wide = random && metric === "window" ? [above(w, parts) + 1n, 1n] : [w, parts];
  const ahead = (apart) => Number(above(BigInt(around ? Math.min(apart, around - apart) : apart) * wide[1], wide[0]));
  if (sizes) {
    let cells = [[]];
    for (const size of sizes) cells = cells.flatMap((cell) => [...Array(size).keys()].map((x) => [...cell, x]));
    const rows = (cell) => cell.reduce((all, x, d) => all * sizes[d] + x, 0);
    const place = (cell) => sum(cell.map((x, d) => x * law.strides[d]));
    cells.forEach((x, k) =>
      cells.slice(k + 1).forEach((y) => {
        const apart = x.map((at, d) => Math.abs(at - y[d]));
        const far = along ? Math.min(sum(apart.map((s, d) => along[d][s])), said.most) : numbers[rows(apart)];
        if (!(far < 2 ** 53)) refuse("metric", "too large for a proof");
        look(place(x), place(y), far);
      }),
    );
  } else if (steps) steps.forEach((far, k) => look(...(pairs ? pairs[k] : [k, k + 1]), far));
  else if (made.alike) look(0, 1, 1);
  else {
    const size = (law.first || law).size, near = metric === "line" && !cap && !around;
    for (let x = 0; x < (made.shift ? 1 : size); x++)
      for (let y = x + 1; y < (near ? Math.min(x + 2, size) : size); y++)
        look(x, y, places ? (places.includes(x) || places.includes(y) ? 1 : 2) : metric === "uniform" ? 1 : ahead(y - x));
  }
  let holds = true, least = [Infinity];
  for (const [far, ratio] of worst) {
    let top = BigInt(far) * a, under = b;
    if (cap && top * never[1] > never[0] * b) [top, under] = never;
    // Between two points a ratio of 1 + e, and no more, keeps e for every step.
    const bound = random && metric === "line" && far === 1 ? ((a + b) << POINT) / b - 1n : exponential(top, under);
    const loss = log(ratio), allowed = log(bound);
    holds &&= ratio <= bound;
    if (allowed - loss < least[0]) least = [allowed - loss, loss, allowed];
  }
  return [holds, `loss ${least[1].toPrecision(9)}, allowed ${least[2].toPrecision(9)}: ${holds ? "holds" : "BROKEN"}`];
}

// The survey ------------------------------------------------------------------------------------

function surveyOf(text, { store, send, limit = Infinity } = {}) {
  const data = JSON.parse(text), { survey, header } = data, names = new Set();
  if (data["metricldp-client"] !== 1) refuse("version", "this is no client manifest of version 1");
  const fields = data.fields.map((field) => {
    field.of.forEach(({ name }) => names.add(name));
    const random = field.law && /real|weight/.test(field.of[0].kind);
    return { ...field, random, made: field.law ? lawOf(field.law) : { bits: 64, draw: putDouble } };
  });
  const length = 17 + Math.ceil(sum(fields.map(({ made }) => made.bits)) / 8);
  if (length !== data.bytes || header !== "02" + survey.slice(0, 32)) refuse("survey", "this manifest contradicts itself");
  const keyOf = ([{ name }], x) => `${survey} ${x} ${name}`;
  let sending = Promise.resolve(), tries = 0, timer;

  /** All values are checked before the first coin is drawn. */
  const positionsOf = (person, clip) => {
    const other = Object.keys(person).find((name) => !names.has(name));
    if (other && fields.some(({ of }) => of[0].optional)) refuse("kind", "the survey does not ask for " + other);
    return fields.map(({ of, law }) => {
      const at = of.map((one) => position(one, Object.hasOwn(person, one.name) ? person[one.name] : null, clip));
      return law?.strides ? sum(at.map((x, d) => x * law.strides[d])) : at[0];
    });
  };
  const reportOf = (positions, tape, memory = {}) => {
    const bytes = new Uint8Array(length);
    bytes.set(ofHex(header));
    let at = 136;
    const put = (value, bits) => {
      while (bits > 0) {
        const taken = Math.min(8 - (at & 7), bits);
        bytes[at >> 3] |= value % 2 ** taken << (at & 7);
        value = Math.floor(value / 2 ** taken);
        at += taken;
        bits -= taken;
      }
    };
    fields.forEach(({ of, law, made, random }, k) => {
      const key = keyOf(of, positions[k]), x = random ? tape.rounded(positions[k]) : positions[k];
      if (!made.first) return made.draw(x, tape, put);
      made.first.draw(x, tape, (y) => (memory[key] ??= y)); // drawn in any case
      if (!(memory[key] < law.second.size)) refuse("memory", "the memory is damaged");
      made.second.draw(memory[key], tape, put);
    });
    return bytes;
  };

  const load = async () => JSON.parse((await store.getItem(KEY)) || "{}");
  /** One tab at a time reads, changes and writes what is kept; what throws changes nothing. */
  const change = (work) =>
    locked(async () => {
      const all = await load();
      const mine = (all[survey] ??= { names: [...names], reports: 0, spent: 0, answers: {}, memory: {} });
      work(mine, all);
      await store.setItem(KEY, JSON.stringify(all));
      return mine;
    });

  /** What became of a body that was sent: sent or refused, or it waits. */
  const deliver = async (body) => {
    let wait = 0;
    try {
      const address = String(send).replace(/\/$/, "") + `/v1/surveys/${survey}/reports`;
      const how = { method: "POST", body, credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" };
      const answer = await (send.call ? send(body, survey) : fetch(address, how));
      const { status, headers } = answer, kind = headers.get("content-type") || "";
      wait = 1000 * headers.get("retry-after") || 0;
      const said = /json/.test(kind) && status < 500 && !/408|429/.test(status) ? await answer.json() : {};
      const reason = answer.ok ? Object.keys(said.refused || {})[0] : /problem/.test(kind) && said.type?.split(/[/#:]/).pop();
      if (answer.ok && said.accepted + said.duplicate > 0) return { state: "sent" };
      if (reason) return { state: "refused", reason };
    } catch {
      // no network: later
    }
    const pause = Math.max(wait, Math.min(1000 * 2 ** tries++, 36e5) * (1 + Math.random()));
    clearTimeout(timer);
    timer = setTimeout(flush, pause);
    timer.unref?.();
    return { state: "waiting", after: wait && Date.now() + wait };
  };
  const sendAll = async () => {
    for (const [wave, { state, after, id, proof, report }] of Object.entries((await load())[survey]?.answers || {})) {
      if (state !== "waiting" || after > Date.now()) continue;
      const found = await deliver(ofHex(id + proof + report));
      if (found.state !== "waiting") tries = 0;
      await change(({ answers }) => (answers[wave] = found.after === undefined ? { id, ...found } : { ...answers[wave], ...found }));
    }
  };
  const flush = () => (sending = sending.then(sendAll, sendAll));
  const status = async (wave = "") => {
    const { id, state, reason } = (await load())[survey]?.answers[wave] || {};
    return id ? { id, state, reason } : null;
  };

  return {
    fingerprint: survey,
    positionsOf,
    reportOf,
    flush,
    status,
    promise: () => fields.map(({ says }) => says).join("\n"),
    certify() {
      const lines = fields.map((field) => [field.of.map(({ name }) => name).join("+"), ...(field.law ? prove(field) : [true, "sent as it is"])]);
      return { holds: lines.every(([, holds]) => holds), lines: lines.map(([name, , text]) => `${name}: ${text}`) };
    },
    async answer(person, { wave = "", invite, clip } = {}) {
      const positions = positionsOf(person, clip);
      const { answers } = await change((mine, all) => {
        if (mine.answers[wave]) return;
        const cost = sum(fields.map(({ of, epsilon = 0 }, k) => (keyOf(of, positions[k]) in mine.memory ? 0 : epsilon)));
        const spent = cost + sum(Object.values(all).map((one) => one.spent));
        if (spent > limit) refuse("limit", `this answer would bring what is spent to epsilon ${spent}`);
        const bytes = invite ? invited(invite) : newId();
        const report = toHex(reportOf(positions, new Tape(), mine.memory));
        mine.answers[wave] = { state: "waiting", id: toHex(bytes.slice(0, 16)), proof: toHex(bytes.slice(16)), report };
        mine.reports++;
        mine.spent += cost;
      });
      if (answers[wave].state === "waiting") await flush();
      return status(wave);
    },
    async ledger() {
      const surveys = Object.entries(await load()).map(([survey, { names, reports, spent }]) => ({ survey, names, reports, spent }));
      return { surveys, spent: sum(surveys.map((one) => one.spent)) };
    },
  };
}

let queue = Promise.resolve();
const locked = (work) =>
  globalThis.navigator?.locks ? navigator.locks.request(KEY, work) : (queue = queue.then(work, work));

function putDouble(value, tape, put) {
  const [low, high] = new Uint32Array(Float64Array.of(value).buffer);
  put(low, 32);
  put(high, 32);
}

/** The day, so that a collector can forget old ones, and 96 random bits. */
function newId() {
  const id = crypto.getRandomValues(new Uint8Array(16));
  new DataView(id.buffer).setUint32(0, Date.now() / 864e5);
  return id;
}

/** The serial number of an invite, and what proves it. */
function invited(text) {
  const bytes = ofHex(toHex([...atob(text.replace(/-/g, "+").replace(/_/g, "/"))].map((letter) => letter.charCodeAt(0))));
  return /^(32|272)$/.test(bytes.length) ? bytes : refuse("invite", "an invite has 32 or 272 bytes");
}

/**
 * Opens a survey by its client manifest, the text or its address. `pin` is the SHA-256 that
 * `metricldp compile` printed: whoever serves another manifest is refused.
 */
export async function open(source, { pin, store = globalThis.localStorage, ...more } = {}) {
  const text = source[0] === "{" ? source : await (await fetch(source, { credentials: "omit" })).text();
  if (!crypto.subtle) refuse("pin", "browsers check the pin on pages with https only");
  const found = toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
  if (found !== pin) refuse("pin", `this manifest is ${found}, and pinned is ${pin}`);
  const { positionsOf, reportOf, ...survey } = surveyOf(text, { store, ...more });
  if (more.send) {
    globalThis.addEventListener?.("online", survey.flush);
    survey.flush();
  }
  return survey;
}

/** For tests only, it gives no privacy: reports from coins that are written down. */
export const forTestsOnly = { Tape, LAWS, halves, surveyOf, toHex };
