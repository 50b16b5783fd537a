// metricldp: answers to a survey, blurred on the device. The formats are in docs/formats.md.
// Browsers, and node from version 19 on. No dependencies.

let WORD = 2 ** 32; // not const: minifiers would write it out everywhere
const ONE = 1n << 64n;
const KEY = "metricldp";
const BROKEN = ": BROKEN";
const { abs, ceil, floor, log: ln, max, min } = Math;

const refuse = (reason, message = reason) => {
  throw Object.assign(Error(message), { reason });
};
const big = (hex) => BigInt("0x" + hex);
/** How many binary digits numbers below this one need. */
const bitsFor = (outcomes) => (outcomes > 1 ? (BigInt(outcomes) - 1n).toString(2).length : 0);
const ofDigits = (hex) => +("0x" + hex);
const ofHex = (text) => Uint8Array.from(text.match(/../g), ofDigits);
const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, 0)).join("");
const upTo = (count) => [...Array(count).keys()];
const most = (a, b) => (a > b ? a : b);
const sum = (list) => list.reduce((a, b) => a + b, 0);
/** A copy without a prototype: its keys may be any names, such as "constructor". */
const own = (from) => ({ __proto__: null, ...from });

// The tape: 64-bit words, each read once, as two halves ---------------------------------------

/** Fair words; or, in tests, those given, upper half first. */
function tapeOf(given) {
  let words = given || [], at = 0, low;
  /** The next word: its upper half, and the lower one in `low`. */
  const next = () => {
    if (at === words.length) {
      if (given) throw given;
      words = crypto.getRandomValues(new Uint32Array(128));
      at = 0;
    }
    at += 2;
    low = words[at - 1];
    return words[at - 2];
  };
  const integer = (bits) => (bits ? ((BigInt(next()) << 32n) | BigInt(low)) >> BigInt(64 - bits) : 0n);
  return {
    integer,
    toss: (hex) => integer(64) < big(hex),
    uniform(bound) {
      let drawn;
      do drawn = integer(bitsFor(bound));
      while (drawn >= bound);
      return drawn;
    },
    /** A position in units of 2^-32 to a whole one. */
    rounded(position) {
      const whole = floor(position / WORD);
      return whole + (next() < position - whole * WORD);
    },
    /** Many tosses at once, 32 in each number. */
    lanes(hex, count) {
      let [high, rest] = [hex.slice(0, -8), hex.slice(-8)].map(ofDigits);
      const below = new Uint32Array(2 * ceil(count / 64));
      const open = below.map((_, k) => (count < 32 * k + 32 ? 2 ** max(0, count - 32 * k) - 1 : -1));
      if (high === WORD) return open;
      for (let left = 1; left && (high || rest); ) {
        const one = high >>> 31;
        high = ((high << 1) | (rest >>> 31)) >>> 0; // the digits that are left
        rest = (rest << 1) >>> 0;
        left = 0;
        for (let k = 0; k < open.length; k += 2) {
          let drawn = next();
          for (const at of [k + 1, k]) {
            if (one) below[at] |= open[at] & ~drawn;
            left |= open[at] &= one ? drawn : ~drawn;
            drawn = low;
          }
        }
      }
      return below;
    },
  };
}

// Exact numbers of a proof: fixed point, 320 binary digits behind the point, rounded up --------

const POINT = 320n;
const UNIT = 1n << POINT;
const above = (a, b) => (a + b - 1n) / b;
/** a / b or b / a, whichever is larger; beyond all bounds where one of them is 0. */
const ratioOf = (a, b) => (a < b ? ratioOf(b, a) : b > 0n ? above(a << POINT, b) : a ? BEYOND : UNIT);
const times = (a, b) => above(a * b, UNIT);
const power = (base, exponent) => {
  const half = exponent > 1 ? power(times(base, base), floor(exponent / 2)) : UNIT;
  return exponent % 2 ? times(half, base) : half;
};
const BEYOND = UNIT << 9999n;
/** The ratio of two positions from that of one step. */
const stepwise = (step) => (x, other) => ((x - other) % 1 === 0 ? power(step, abs(x - other)) : BEYOND);
const fraction = (text) => (text + "/1").split("/", 2).map(BigInt);
/** At most e^(a/b): Taylor's series of a small part, cut off, and squared again. */
function exponential(a, b) {
  const halvings = BigInt(bitsFor(a / b + 2n) + 8), scale = POINT + 2n * halvings + 16n;
  let total = 1n << scale;
  for (let term = total, k = 1n; term; k++) total += term = (term * a) / (k * (b << halvings));
  for (let k = halvings; k; k--) total = (total * total) >> scale;
  return total >> (scale - POINT);
}
const log = (fixed) => ln(Number(fixed >> 270n) / 2 ** 50);

// Laws: `draw` calls put(number, bits) for what is sent. `ratio` of two positions is the worst of
// any report, or a bound. `shift`: by their difference alone.

const LAWS = {
  __proto__: null,
  threshold({ bits, flip }) {
    return {
      shift: 1,
      bits,
      draw: (x, tape, put) =>
        tape.lanes(flip, bits).forEach((flips, k) => {
          const from = x - 32 * k;
          put((flips ^ (from > 31 ? 0 : -(2 ** max(0, from)))) >>> 0, min(32, bits - 32 * k));
        }),
      ratio: stepwise(ratioOf(ONE - big(flip), big(flip))),
    };
  },
  geometric({ size, zero, digits, block }) {
    const length = 2 ** digits.length, bits = bitsFor(size);
    // The worst step of the noise: from g to g + 1, where digits carry, and from 0 to 1.
    let step = UNIT, ones = 1n, zeros = 1n, whole = 1n;
    [...digits, block].forEach((hex, j) => {
      const one = big(hex), other = ONE - one;
      step = most(step, ratioOf(zeros * one, ones * (digits[j] ? other : ONE)));
      ones *= one;
      zeros *= other;
      whole *= ONE;
    });
    step = most(step, ratioOf(2n * big(zero) * whole, (ONE - big(zero)) * zeros));
    return {
      shift: 1,
      bits,
      draw(x, tape, put) {
        let g = 1, k = 0;
        digits.forEach((hex, j) => (g += tape.toss(hex) * 2 ** j));
        for (; k * length <= size && tape.toss(block); k++) g += length;
        if (tape.integer(1)) g = -g;
        if (tape.toss(zero)) g = 0;
        put(min(max(x + g, 0), size - 1), bits);
      },
      ratio: stepwise(step),
    };
  },
  response({ size, keep }) {
    const others = BigInt(size - 1), bits = bitsFor(size);
    return {
      shift: 1,
      bits,
      draw(x, tape, put) {
        const stays = tape.toss(keep), moved = 1 + Number(tape.uniform(others));
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
    return {
      bits: size,
      draw(x, tape, put) {
        const field = [];
        for (const q of new Set(other)) {
          const places = upTo(size).filter((k) => other[k] === q);
          const lanes = tape.lanes(q, places.length);
          places.forEach((place, i) => (field[place] = (lanes[i >>> 5] >>> i) & 1));
        }
        field[x] = +tape.toss(own[x]);
        field.forEach((bit) => put(bit, 1));
      },
      ratio: (x, y) => most(times(bits[x][0], bits[y][1]), times(bits[y][0], bits[x][1])),
    };
  },
  matrix({ rows }) {
    const parts = rows.map((row) => ({
      ...LAWS.geometric(row),
      entries: row.runs.flatMap((run, k, runs) => (k % 2 ? Array(run).fill(runs[k - 1] - row.low) : [])),
    }));
    return {
      bits: sum(parts.map(({ bits }) => bits)),
      draw: (x, tape, put) => parts.forEach(({ draw, entries }) => draw(entries[x], tape, put)),
      ratio: (x, y) =>
        parts.reduce((all, { entries: at, ratio }) => (at[x] === at[y] ? all : times(all, ratio(at[x], at[y]))), UNIT),
    };
  },
  table({ weights }, row = (x) => weights[x].map(big)) {
    const bits = bitsFor(row(0).length), rows = [], logs = [];
    const seen = (x) => (logs[x] ||= (rows[x] = row(x)).map((weight) => ln(Number(weight))));
    return {
      bits,
      draw(x, tape, put) {
        let left = tape.integer(64);
        put(row(x).findIndex((weight) => (left -= weight) < 0n), bits);
      },
      /** Floats find the reports that can be the worst, whole numbers decide. */
      ratio(x, other) {
        const there = seen(other), apart = seen(x).map((here, y) => abs(here - there[y]) || 0);
        const near = apart.reduce(most) - 1e-9;
        return restOf(rows[x]) || restOf(rows[other]) ? BEYOND : apart.reduce((worst, far, y) => (far < near ? worst : most(worst, ratioOf(rows[x][y], rows[other][y]))), UNIT);
      },
    };
  },
  shapes(law) {
    const columns = levelsOf(law);
    return LAWS.table(law, (x) => {
      const row = columns.map((column) => column.at(x));
      return [...row, restOf(row)];
    });
  },
  shaped(law) {
    const patterns = levelsOf(law), n = patterns[0].list.length, bits = bitsFor(patterns.length * n);
    const totals = patterns.map(({ at, list }) => list.reduce((all, _, d) => all + at(d), 0n)), found = [];
    return {
      shift: 1,
      bits,
      draw(x, tape, put) {
        const j = Number(tape.integer(bitsFor(totals.length))), { at, list } = patterns[j];
        let left = tape.uniform(totals[j]);
        put(j * n + ((x + list.findIndex((_, d) => (left -= at(d)) < 0n)) % n), bits);
      },
      ratio(x, other) {
        const apart = abs(other - x);
        return (found[apart] ||= patterns.reduce((worst, { at, list }) => {
          const seen = {};
          list.forEach((depth, d) => {
            const next = (d + apart) % n;
            seen[depth * 99999 + list[next]] ||= worst = most(worst, ratioOf(at(d), at(next)));
          });
          return worst;
        }, UNIT));
      },
    };
  },
  cells: ({ of }) => lawOf(of),
  /** The second blur of geometric noise: most often none. */
  lazy({ keep, end, of }) {
    const { bits, draw } = LAWS.geometric(of);
    return {
      bits,
      draw(x, tape, put) {
        const stays = tape.toss(x % (of.size - 1) ? keep : end);
        draw(x, tape, (y) => put(stays ? x : y, bits));
      },
    };
  },
  /** A first blur, that is kept for each value, and a second one of it for each report. */
  memoised(law) {
    const first = lawOf(law.first), second = lawOf(law.second);
    return { ...first, first, second, bits: second.bits };
  },
};

const lawOf = (law) => (LAWS[law.law] || refuse("law", law.law))(law);

/** What is missing until all is 1: nothing, in a row that is a law. Below 0 is none. */
const restOf = (row) => row.reduce((left, weight) => (weight < 0n ? BEYOND : left - weight), ONE);

/** The depths of each pattern or shape, and its level at each place. */
const levelsOf = ({ depths, tops, fall }) =>
  depths.map((list, k) => {
    if (list.at(0).at) {
      // digits and letters: 36 in order, then capitals
      const code = [...list].map((digit) => parseInt(digit, 36) + 26 * (digit < "a" && digit > "9"));
      list = list[0] === ":" ? code.flatMap((digit, at) => (at && !(at % 2) ? 62 * code[at - 1] + digit : [])) : code;
    }
    const levels = [big(tops[k])];
    for (const deepest = list.reduce(most); levels.length <= deepest; )
      levels.push((levels.at(-1) * big(fall) + ONE - 1n) >> 64n);
    return { list, at: (place) => levels[list[place]] };
  });

// From a value to a position ----------------------------------------------------------------------

const halfEven = (number) => {
  const whole = floor(number), rest = number - whole;
  return whole + (rest > 0.5 || (rest === 0.5 && whole % 2));
};
const missing = (value) => (value ?? NaN) !== value || !String(value).trim();

/** A position; in units of 2^-32 where it is rounded at random; of a public weight the number. */
function position({ name, kind, names, edges, bins, points, low, high, ...of }, value, clip) {
  const no = (reason) => refuse(reason, `${name}: ${reason}`);
  const whole = kind === "integer", share = (most) => ((value - low) / (high - low)) * most;
  if (kind === "answered") return +!missing(value);
  if (missing(value)) {
    if (!of.optional) no("missing");
    value = names ? names[names.length >> 1] : low + (whole ? floor((high - low + 1) / 2) : (high - low) / 2);
  } else if (value === !!value && whole && !low && high === 1) value = +value;
  if (names) {
    const found = names.indexOf(String(value));
    return typeof value === "object" || (value === +value && value % 1) ? no("kind") : found < 0 ? no("name") : found;
  }
  if (!Number.isFinite(value)) no("kind");
  if (whole && value % 1) no("whole");
  if (clip && !of.cyclic) value = min(max(value, low), high);
  if (value < low || value > high) no("range");
  if (whole) return value - low;
  if (kind === "continuous") {
    let k = edges ? edges.length - 2 : min(bins - 1, ceil(share(bins)) + 1);
    while (k && (edges ? edges[k] : k * ((high - low) / bins) + low) > value) k--;
    return k;
  }
  if (kind === "weight") return of.private ? halfEven(share(WORD)) : value;
  const at = share(points - 1), left = min(floor(at), points - 2);
  return left * WORD + min(max(halfEven((at - left) * WORD), 0), WORD);
}

// The proof ---------------------------------------------------------------------------------------

/** The worst ratio of the pairs at each distance, held against e to that distance. */
function prove({ of, law, metric: { step, width, cap, around, pairs, steps, sizes, numbers }, made, random }) {
  const [a, b] = fraction(step), [w, parts] = fraction(width || 1), never = cap && fraction(cap);
  const { size } = law.first || law;
  let end = ": holds", least = [];
  // It has to be of all values that can be answered: of weights, and whether there is one, two.
  of.forEach(({ kind, names, edges, bins, points, low, high }, k) => {
    const values = names?.length || edges?.length - 1 || bins || points || (/w/.test(kind) ? 2 : high - low + 1);
    if (values !== (sizes?.[k] || size)) end = BROKEN;
  });
  const worst = new Map(), look = (x, y, far) => worst.set(far, most(worst.get(far) || UNIT, made.ratio(x, y)));
  if (sizes) {
    let cells = [[]];
    for (const size of sizes) cells = cells.flatMap((cell) => upTo(size).map((x) => [...cell, x]));
    const place = (cell) => sum(cell.map((x, d) => x * law.strides[d]));
    cells.forEach((x, k) =>
      cells.slice(k + 1).forEach((y) =>
        look(place(x), place(y), numbers[x.reduce((all, at, d) => all * sizes[d] + abs(at - y[d]), 0)]),
      ),
    );
  } else if (steps) {
    const joined = pairs || steps.map((_, k) => [k, k + 1]), met = new Set([0]);
    joined.forEach(([x, y], k) => look(x, y, steps[k]));
    for (let before = 0; before < met.size; ) {
      before = met.size;
      joined.forEach(([x, y]) => (met.has(x) || met.has(y)) && met.add(x).add(y));
    }
    if (met.size < size) end = BROKEN; // nothing is promised between some values
  } else {
    const near = !width && !cap && !around; // neighbours prove a line
    // Values that are rounded at random to points of a grid: a window reaches one point more.
    const wide = random && width ? above(w, parts) * parts + parts : w;
    for (let x = 0; x < (made.shift ? 1 : size); x++)
      for (let y = x + 1; y < (near ? min(x + 2, size) : size); y++)
        look(x, y, Number(above(BigInt(around ? min(y - x, around + x - y) : y - x) * parts, wide)));
  }
  for (const [far, ratio] of worst) {
    let top = BigInt(far) * a, under = b;
    if (cap && top * never[1] > never[0] * b) [top, under] = never;
    // Between two points a ratio of 1 + e, and no more, keeps e for every step.
    const bound = random && !width && far === 1 ? ((a + b) << POINT) / b - 1n : exponential(top, under);
    const room = log(bound) - log(ratio);
    if (ratio > bound) end = BROKEN;
    if (!(room >= least[0])) least = [room, `loss ${log(ratio).toPrecision(9)}, allowed ${log(bound).toPrecision(9)}`];
  }
  return least[1] + end;
}

// The survey ------------------------------------------------------------------------------------

function surveyOf(text, { store, send, limit } = {}) {
  const { survey, header, bytes: length, fields: said, "metricldp-client": version } = JSON.parse(text);
  if (version !== 1) refuse("version");
  const names = said.flatMap(({ of }) => of.map(({ name }) => name));
  const fields = said.map((field) => ({
    ...field,
    random: field.law && /real|wei/.test(field.of[0].kind),
    made: field.law ? lawOf(field.law) : {
      bits: 64,
      draw: (value, tape, put) => new Uint32Array(Float64Array.of(value).buffer).forEach((half) => put(half, 32)),
    },
  }));
  if (length !== 17 + ceil(sum(fields.map(({ made }) => made.bits)) / 8)) refuse("length");
  const keyOf = ([{ name }], x) => `${survey} ${x} ${name}`;
  let sending = queue, timer;

  /** All values are checked before the first coin is drawn. */
  const positionsOf = (person, clip) => {
    const other = Object.keys(person).find((name) => !names.includes(name));
    if (other && fields.some(({ of }) => of[0].optional)) refuse("kind", other);
    return fields.map(({ of, law }) => {
      const at = of.map((one) => position(one, own(person)[one.name], clip));
      return law?.strides ? sum(at.map((x, d) => x * law.strides[d])) : at[0];
    });
  };
  const reportOf = (positions, tape, memory = {}) => {
    const bytes = new Uint8Array(length);
    bytes.set(ofHex(header));
    let at = 136;
    const put = (value, bits) => {
      for (; bits > 0; bits--, at++) {
        bytes[at >> 3] |= value % 2 << (at & 7);
        value = floor(value / 2);
      }
    };
    fields.forEach(({ of, law, made, random }, k) => {
      const key = keyOf(of, positions[k]), x = random ? tape.rounded(positions[k]) : positions[k];
      if (!made.first) return made.draw(x, tape, put);
      made.first.draw(x, tape, (y) => (memory[key] ??= y)); // drawn in any case
      if (!(memory[key] < (law.second.of || law.second).size)) refuse("memory");
      made.second.draw(memory[key], tape, put);
    });
    return toHex(bytes);
  };

  const load = async () => own(JSON.parse((await store.getItem(KEY)) || 0));
  /** One tab at a time reads, changes and writes what is kept; what throws changes nothing. */
  const change = (work) =>
    locked(async () => {
      const all = await load();
      const mine = (all[survey] ??= { names, reports: 0, spent: 0, memory: {} });
      mine.answers = own(mine.answers);
      work(mine, all);
      await store.setItem(KEY, JSON.stringify(all));
    });
  const spentIn = (all) => sum(Object.values(all).map(({ spent }) => spent));

  /** What became of a body that was sent: sent or refused, or it waits. */
  const deliver = async (body) => {
    let wait;
    try {
      const answer = await fetch(`${send.replace(/\/$/, "")}/v1/surveys/${survey}/reports`, {
        method: "POST",
        body: ofHex(body),
        credentials: "omit",
      });
      const { ok, headers } = answer;
      wait = 1000 * headers.get("retry-after");
      if (/json/.test(headers.get("content-type")) && !/40[48]|429|^5/.test(answer.status)) {
        const { accepted, duplicate, refused = {}, type } = await answer.json();
        const [reason] = ok ? Object.keys(refused) : (type || "").match(/[^/#:]*$/);
        if (ok && accepted + duplicate) return { state: "sent" };
        if (reason) return { state: "refused", reason };
      }
    } catch {
      // no network: later
    }
    clearTimeout(timer);
    timer = setTimeout(flush, (wait || 3e4) * (1 + Math.random()));
    timer.unref?.();
    return { after: Date.now() + wait };
  };
  const kept = async () => own((await load())[survey]?.answers);
  const sendAll = async () => {
    for (const [wave, { id, body, after }] of Object.entries(await kept()))
      if (send && body && !(after > Date.now())) {
        const found = await deliver(body);
        await change(({ answers }) => (answers[wave] = found.state ? { id, ...found } : { ...answers[wave], ...found }));
      }
  };
  const flush = () => (sending = sending.then(sendAll, sendAll));
  const status = async (wave = "") => {
    const { body, after, ...told } = own((await kept())[wave]);
    return told;
  };

  const made = {
    fingerprint: survey,
    flush,
    status,
    promise: () => fields.map(({ says }) => says).join("\n"),
    certify() {
      const lines = fields.map((field) => `${field.name}: ${field.law ? prove(field) : "public"}`);
      return { holds: !lines.some((line) => line.endsWith(BROKEN)), lines };
    },
    async answer(person, { wave = "", invite, clip } = {}) {
      const positions = positionsOf(person, clip);
      await change((mine, all) => {
        if (mine.answers[wave]) return;
        const cost = sum(fields.map(({ of, epsilon = 0 }, k) => (keyOf(of, positions[k]) in mine.memory ? 0 : epsilon)));
        const spent = spentIn(all) + cost;
        if (spent > limit) refuse("limit", spent);
        const body = (invite ? invited(invite) : newId()) + reportOf(positions, tapeOf(), mine.memory);
        mine.answers[wave] = { id: body.slice(0, 32), state: "waiting", body };
        mine.reports++;
        mine.spent += cost;
      });
      await flush();
      return status(wave);
    },
    async ledger() {
      const surveys = await load();
      return { surveys, spent: spentIn(surveys) };
    },
  };
  return [made, positionsOf, reportOf];
}

let queue = Promise.resolve();
const locked = (work) => globalThis.navigator?.locks?.request(KEY, work) || (queue = queue.then(work, work));

/** The day, so that a collector can forget old ones, and 96 random bits. */
const newId = () =>
  floor(new Date() / 864e5).toString(16).padStart(8, 0) + toHex(crypto.getRandomValues(new Uint8Array(12)));

/** What the device keeps. A lock alone is not enough: tabs read old values in localStorage. */
const kept = (ask) =>
  new Promise((done, fail) => {
    const opened = indexedDB.open(KEY);
    opened.onupgradeneeded = () => opened.result.createObjectStore(KEY);
    opened.onerror = fail;
    opened.onsuccess = () => {
      const turn = opened.result.transaction(KEY, "readwrite"), asked = ask(turn.objectStore(KEY));
      turn.onabort = fail;
      turn.oncomplete = () => done(asked.result);
    };
  });
const device = {
  getItem: (key) => kept((there) => there.get(key)),
  setItem: (key, text) => kept((there) => there.put(text, key)),
};

/** The serial number of an invite, and what proves it, as the collector writes them. */
const invited = (text) => (/^\w{64}(\w{480})?$/.test(text) ? text : refuse("invite"));

/**
 * Opens a survey by its client manifest, the text or its address. `pin` is the SHA-256 that
 * `metricldp collector manifest` printed: whoever serves another manifest is refused.
 */
export async function open(source, { pin, store = device, ...more } = {}) {
  const text = source[0] === "{" ? source : await (await fetch(source)).text();
  if (!crypto.subtle) refuse("https");
  const found = toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
  if (found !== pin) refuse("pin", found);
  const [survey] = surveyOf(text, { store, ...more });
  if (more.send) {
    globalThis.addEventListener?.("online", survey.flush);
    survey.flush();
  }
  return survey;
}

/** For tests only, it gives no privacy: reports from coins that are written down. */
export const forTestsOnly = { tapeOf, LAWS, surveyOf };
