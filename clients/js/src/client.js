// The client: a survey in a browser, with storage, sending, invites and a privacy accountant.
// Browsers, and node from version 19 on. No dependencies. The formats are in docs/specification.md.

import { deviceOf } from "./device.js";
import { InvalidManifestError, MetricLdpError } from "./errors.js";
import { plus, toNumber } from "./exact.js";
import { fieldsWithResponses, sentences } from "./guarantee.js";
import { parse } from "./manifest.js";
import { wordsOf } from "./random_words.js";
import { ofHex, toHex } from "./report.js";
import { certify } from "./verify.js";

const KEY = "metricldp";

/** A copy without a prototype: its keys may be any names, such as "constructor". */
const own = (from) => ({ __proto__: null, ...from });
const epsilonOf = (all) => Object.values(all).reduce((total, { epsilon }) => total + epsilon, 0);

/** A survey that was opened: one respondent's reports, stored until they have arrived. */
function surveyOf(manifest, { store, send, limit }) {
  const { fingerprint, names } = manifest, device = deviceOf(manifest), fields = fieldsWithResponses(manifest);
  let sending = queue, timer;

  const load = async () => own(JSON.parse((await store.getItem(KEY)) || 0));
  /** One tab at a time reads, changes and writes what is stored; what throws changes nothing. */
  const change = (work) =>
    locked(async () => {
      const all = await load();
      const mine = (all[fingerprint] ??= { attributes: names, reports: 0, epsilon: 0, memory: {} });
      mine.waves = own(mine.waves);
      work(mine, all);
      await store.setItem(KEY, JSON.stringify(all));
    });
  const waves = async () => own((await load())[fingerprint]?.waves);

  /** The epsilon that a report adds: nothing for a first randomization that is remembered. */
  const added = (positions, memory) =>
    toNumber(
      fields.map(({ field, k, guarantee }) => (device.keyOf(field, positions[k]) in memory ? guarantee.remembered() : guarantee.epsilon())).reduce(plus),
    );

  /** What became of a body that was sent: sent or rejected, or it waits. */
  const deliver = async (body) => {
    let wait;
    try {
      const response = await fetch(`${send.replace(/\/$/, "")}/v1/surveys/${fingerprint}/reports`, {
        method: "POST",
        body: ofHex(body),
        credentials: "omit",
      });
      const { ok, headers } = response;
      wait = 1000 * headers.get("retry-after");
      if (/json/.test(headers.get("content-type")) && !/40[48]|429|^5/.test(response.status)) {
        const { accepted, duplicate, rejected = {}, type } = await response.json();
        const [reason] = ok ? Object.keys(rejected) : (type || "").match(/[^/#:]*$/);
        if (ok && accepted + duplicate) return { state: "sent" };
        if (reason) return { state: "rejected", reason };
      }
    } catch {
      // no network: later
    }
    clearTimeout(timer);
    timer = setTimeout(flush, (wait || 3e4) * (1 + Math.random()));
    timer.unref?.();
    return { after: Date.now() + wait };
  };
  const sendAll = async () => {
    for (const [wave, { id, body, after }] of Object.entries(await waves()))
      if (send && body && !(after > Date.now())) {
        const outcome = await deliver(body);
        await change(({ waves }) => (waves[wave] = outcome.state ? { id, ...outcome } : { ...waves[wave], ...outcome }));
      }
  };
  /** Sends what waits. */
  const flush = () => (sending = sending.then(sendAll, sendAll));
  /** The state of a report, without sending. */
  const status = async (wave = "") => {
    const { body, after, ...shown } = own((await waves())[wave]);
    return shown;
  };

  return {
    fingerprint,
    flush,
    status,

    /** The guarantee in sentences: of each attribute and group, and of all attributes together. */
    guarantee: () => sentences(manifest),

    /** The proof of the guarantee, from the integers that random words are compared with. */
    certify: () => device.certificate,

    /** Randomize once, store the bytes, send them. A second call sends the same bytes, or nothing. */
    async report(response, { wave = "", invite, clip } = {}) {
      const positions = device.positions(response, clip);
      await change((mine, all) => {
        if (mine.waves[wave]) return;
        const epsilon = added(positions, mine.memory), total = epsilonOf(all) + epsilon;
        if (total > limit) throw new MetricLdpError("limit", `the report would bring epsilon to ${total}`);
        const body = (invite ? readInvite(invite) : newId()) + device.randomize(positions, wordsOf(), mine.memory);
        mine.waves[wave] = { id: body.slice(0, 32), state: "waiting", body };
        mine.reports++;
        mine.epsilon += epsilon;
      });
      await flush();
      return status(wave);
    },

    /** The privacy accountant of this device: reports and their epsilon, by survey. */
    async accountant() {
      const all = await load(), surveys = own();
      for (const [key, { attributes, reports, epsilon }] of Object.entries(all)) surveys[key] = { attributes, reports, epsilon };
      return { surveys, epsilon: epsilonOf(all) };
    },
  };
}

let queue = Promise.resolve();
const locked = (work) => globalThis.navigator?.locks?.request(KEY, work) || (queue = queue.then(work, work));

/** The day, so that a collector can forget old ids, and 96 random bits. */
const newId = () =>
  Math.floor(new Date() / 864e5).toString(16).padStart(8, 0) + toHex(crypto.getRandomValues(new Uint8Array(12)));

/** The serial number of an invite, and what proves it, as the collector writes them. */
function readInvite(digits) {
  if (/^\w{64}(\w{480})?$/.test(digits)) return digits;
  throw new MetricLdpError("invite", "an invite has 64 or 544 hexadecimal digits");
}

/** What the device stores. A lock alone is not enough: tabs read old values in localStorage. */
const stored = (request) =>
  new Promise((done, fail) => {
    const opening = indexedDB.open(KEY);
    opening.onupgradeneeded = () => opening.result.createObjectStore(KEY);
    opening.onerror = fail;
    opening.onsuccess = () => {
      const transaction = opening.result.transaction(KEY, "readwrite"), asking = request(transaction.objectStore(KEY));
      transaction.onabort = fail;
      transaction.oncomplete = () => done(asking.result);
    };
  });
const database = {
  getItem: (key) => stored((objects) => objects.get(key)),
  setItem: (key, text) => stored((objects) => objects.put(text, key)),
};

/** The SHA-256 of a manifest, in hexadecimal digits. */
async function fingerprintOf(text) {
  if (!crypto.subtle) throw new MetricLdpError("https", "the page needs https");
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

/**
 * Opens a survey by its manifest, the text or its address. `fingerprint` is the SHA-256 of the
 * manifest, which the owner publishes: any other manifest is rejected, and so is one whose
 * guarantee does not hold.
 */
export async function open(source, { fingerprint, store = database, ...more } = {}) {
  const text = source[0] === "{" ? source : await (await fetch(source)).text(), actual = await fingerprintOf(text);
  if (actual !== fingerprint) throw new InvalidManifestError("fingerprint", `the manifest has the fingerprint ${actual}`);
  const survey = surveyOf(parse(text, fingerprint), { store, ...more });
  if (more.send) {
    globalThis.addEventListener?.("online", survey.flush);
    survey.flush();
  }
  return survey;
}

/** For tests only, it gives no privacy: reports from given words. */
export const forTestsOnly = { certify, deviceOf, parse, sentences, wordsOf };
