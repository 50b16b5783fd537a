// node --test keeping_test.js: what the client keeps, sends, sends again, and refuses.
// MANIFEST names a file with three manifests: of a plain survey, of one with memoised answers, and
// of one whose attributes and categories have the names of properties of every object.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";
import { open } from "../../clients/js/metricldp.js";

const [text, memoised, odd] = JSON.parse(readFileSync(process.env.MANIFEST, "utf8"));
const pinOf = (manifest) => createHash("sha256").update(manifest).digest("hex");
const { survey: fingerprint, bytes: length } = JSON.parse(text);
const person = { age: 42, income: 31000 };

class Store {
  constructor(kept = {}) {
    this.kept = kept;
  }
  getItem(key) {
    return this.kept[key] ?? null;
  }
  setItem(key, value) {
    this.kept[key] = value;
  }
}

/** A collector that answers as it is told, and what it was sent. */
async function collector(...answers) {
  const bodies = [], heads = [], paths = [];
  const server = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      bodies.push(Buffer.concat(parts));
      heads.push(request.headers);
      paths.push(request.url);
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      if (answer === "lost") return request.socket.destroy();
      const { status = 200, type = "application/json", body = { accepted: 1, duplicate: 0, refused: {} }, ...more } = answer;
      response.writeHead(status, { "content-type": type, ...more });
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => new Promise((done) => server.close(done).closeAllConnections());
  return { bodies, heads, paths, close, send: `http://127.0.0.1:${server.address().port}/` };
}

const opened = (store, more = {}) => open(text, { pin: pinOf(text), store, ...more });
const problem = (status, reason) => ({ status, type: "application/problem+json", body: { type: `/problems/${reason}` } });

test("an answer is one record, without a content type that would need a preflight", async () => {
  const { bodies, heads, paths, close, send } = await collector({});
  const survey = await opened(new Store(), { send });
  const { id, state } = await survey.answer(person);
  assert.equal(state, "sent");
  assert.equal(paths[0], `/v1/surveys/${fingerprint}/reports`);
  assert.equal(bodies[0].length, 16 + length);
  assert.equal(bodies[0].subarray(0, 16).toString("hex"), id);
  assert.equal(bodies[0].readUInt32BE(0), Math.floor(Date.now() / 86400000));
  assert.equal(bodies[0].subarray(16, 33).toString("hex"), "02" + fingerprint.slice(0, 32));
  assert.equal(heads[0]["content-type"], undefined);
  assert.equal(heads[0].cookie, undefined);
  await close();
});

test("asked again nothing is blurred again; a new wave is a new report", async () => {
  const { bodies, close, send } = await collector({});
  const survey = await opened(new Store(), { send });
  const first = await survey.answer(person), again = await survey.answer({ age: 10, income: 0 });
  assert.deepEqual(again, first);
  assert.equal(bodies.length, 1);
  const next = await survey.answer(person, { wave: "2" });
  assert.notEqual(next.id, first.id);
  assert.equal(bodies.length, 2);
  assert.notDeepEqual(bodies[0], bodies[1]);
  await close();
});

test("an answer that is lost on the way: the same bytes again", async () => {
  const { bodies, close, send } = await collector("lost", { body: { accepted: 0, duplicate: 1, refused: {} } });
  const survey = await opened(new Store(), { send });
  assert.equal((await survey.answer(person)).state, "waiting");
  await survey.flush();
  assert.equal((await survey.status()).state, "sent");
  assert.equal(bodies.length, 2);
  assert.deepEqual(bodies[0], bodies[1]);
  await close();
});

test("a tab that is closed and opened again sends the same bytes", async () => {
  const first = await collector({ status: 500, body: {} }), second = await collector({});
  const store = new Store();
  await (await opened(store, { send: first.send })).answer(person);
  const later = await opened(new Store(JSON.parse(JSON.stringify(store.kept))), { send: second.send });
  await later.flush(); // it sends what waits by itself; this is to wait for it
  assert.deepEqual(first.bodies[0], second.bodies[0]);
  assert.equal((await later.status()).state, "sent");
  await Promise.all([first.close(), second.close()]);
});

test("offline, then online", async () => {
  const gone = await collector({});
  await gone.close();
  const store = new Store(), listeners = {};
  globalThis.addEventListener = (name, call) => (listeners[name] = call);
  const survey = await opened(store, { send: gone.send });
  delete globalThis.addEventListener;
  assert.equal((await survey.answer(person)).state, "waiting");
  const { body } = JSON.parse(store.kept.metricldp)[fingerprint].answers[""];
  await listeners.online();
  assert.equal((await survey.status()).state, "waiting");
  const back = await collector({});
  const again = await opened(store, { send: back.send });
  await again.flush();
  assert.equal(back.bodies[0].toString("hex"), body);
  await back.close();
});

test("what is final, and what waits", async () => {
  const cases = [
    [problem(400, "range"), "refused", "range"],
    [problem(410, "closed"), "refused", "closed"],
    [{ body: { accepted: 0, duplicate: 0, refused: { late: 1 } } }, "refused", "late"],
    [problem(408, "slow"), "waiting"],
    [problem(429, "many"), "waiting"],
    [problem(503, "busy"), "waiting"],
    [{ status: 500, body: {} }, "waiting"],
    [{ status: 404, type: "text/html", body: "<p>not here" }, "waiting"],
    [problem(404, "unknown-survey"), "waiting"], // it may be opened later, or the address be mended
    [{ status: 200, type: "text/html", body: "<p>log in to this network" }, "waiting"],
    [{ status: 403, body: { error: "no" } }, "waiting"],
    [{ body: { accepted: 0, duplicate: 0, refused: {} } }, "waiting"],
    ["lost", "waiting"],
  ];
  for (const [answer, state, reason] of cases) {
    const { close, send } = await collector(answer), store = new Store();
    const survey = await opened(store, { send });
    const found = await survey.answer(person);
    assert.deepEqual([found.state, found.reason], [state, reason], JSON.stringify(answer));
    const { body } = JSON.parse(store.kept.metricldp)[fingerprint].answers[""];
    assert.equal(body !== undefined, state === "waiting"); // gone as soon as nobody needs it
    await close();
  }
});

test("Retry-After is obeyed", async () => {
  const { bodies, close, send } = await collector({ ...problem(503, "busy"), "retry-after": "1" }, {});
  const survey = await opened(new Store(), { send });
  await survey.answer(person);
  await survey.flush();
  assert.equal(bodies.length, 1);
  await new Promise((done) => setTimeout(done, 1050));
  await survey.flush();
  assert.equal(bodies.length, 2);
  assert.equal((await survey.status()).state, "sent");
  await close();
});

test("two tabs blur once", async () => {
  const { bodies, close, send } = await collector({});
  const store = new Store();
  const tabs = await Promise.all([1, 2, 3, 4].map(() => opened(store, { send })));
  const found = await Promise.all(tabs.map((tab, k) => tab.answer({ age: 10 * k, income: 0 })));
  assert.equal(new Set(found.map(({ id }) => id)).size, 1);
  assert.equal(new Set(bodies.map((body) => body.toString("hex"))).size, 1);
  const { surveys } = await tabs[0].ledger();
  assert.equal(surveys[fingerprint].reports, 1);
  await close();
});

test("another manifest is refused", async () => {
  const store = new Store();
  const refused = (call, reason) => assert.rejects(call, (error) => error.reason === reason);
  await refused(open(text, { pin: "0".repeat(64), store }), "pin");
  await refused(open(text, { store }), "pin");
  await refused(open(text.replace('"high":99', '"high":98'), { pin: pinOf(text), store }), "pin");
  const changed = (from, to) => open(text.replace(from, to), { pin: pinOf(text.replace(from, to)), store });
  await refused(changed('"metricldp-client":1', '"metricldp-client":2'), "version");
  await refused(changed(`"bytes":${length}`, `"bytes":${length + 1}`), "length");
  await refused(changed('"law":"geometric"', '"law":"constructor"'), "law");
  await refused(changed('"law":"geometric"', '"law":"hadamard"'), "law");
});

test("the manifest can be fetched", async () => {
  const { close, send } = await collector({ body: text });
  const survey = await open(send + "survey.client.json", { pin: pinOf(text), store: new Store() });
  assert.equal(survey.fingerprint, fingerprint);
  await close();
});

test("the ledger adds up, and a limit holds", async () => {
  const store = new Store(), survey = await opened(store, { limit: 100 });
  const each = JSON.parse(text).fields.reduce((sum, { epsilon }) => sum + epsilon, 0);
  await survey.answer(person);
  await survey.answer(person, { wave: "b" });
  const { surveys, spent } = await survey.ledger();
  assert.equal(spent, 2 * each);
  assert.deepEqual([surveys[fingerprint].reports, surveys[fingerprint].spent], [2, 2 * each]);
  const before = store.kept.metricldp;
  const strict = await opened(store, { limit: 2.5 * each });
  await assert.rejects(strict.answer(person, { wave: "c" }), (error) => error.reason === "limit");
  assert.equal(store.kept.metricldp, before);
});

test("invites and tokens go through as they are", async () => {
  for (const size of [32, 272]) {
    const bytes = Buffer.from(Array.from({ length: size }, (_, k) => (k * 37 + 251) % 256));
    const { bodies, close, send } = await collector({});
    const survey = await opened(new Store(), { send });
    const { id } = await survey.answer(person, { invite: bytes.toString("hex") });
    assert.equal(id, bytes.subarray(0, 16).toString("hex"));
    assert.deepEqual(bodies[0].subarray(0, size), bytes);
    assert.equal(bodies[0].length, size + length);
    await close();
  }
  const survey = await opened(new Store());
  await assert.rejects(survey.answer(person, { invite: "AAAA" }), (error) => error.reason === "invite");
  assert.deepEqual(await survey.status(), {});
});

test("nothing is sent that could not be kept", async () => {
  const { bodies, close, send } = await collector({});
  const full = new Store();
  full.setItem = () => {
    throw new Error("quota");
  };
  const survey = await opened(full, { send });
  await assert.rejects(survey.answer(person), /quota/);
  await survey.flush();
  assert.equal(bodies.length, 0);
  await close();
});

test("a refused value changes nothing, and is not in the message", async () => {
  const store = new Store(), survey = await opened(store);
  for (const [value, reason] of [[123456, "range"], [4.25, "whole"], ["x7", "kind"], [undefined, "missing"]])
    await assert.rejects(survey.answer({ ...person, age: value }), (error) => {
      assert.equal(error.reason, reason);
      return !error.message.includes(String(value)) || value === undefined;
    });
  assert.deepEqual(store.kept, {});
});

test("coins are fair and never the same", async () => {
  const survey = await opened(new Store());
  const found = new Set();
  for (let k = 0; k < 200; k++) found.add((await survey.answer(person, { wave: String(k) })).id);
  assert.equal(found.size, 200);
});

test("memoised answers: one first blur for each value, and the ledger counts values", { skip: !memoised && "no memoised law yet" }, async () => {
  const store = new Store();
  const survey = await open(memoised, { pin: pinOf(memoised), store });
  const { survey: name, fields } = JSON.parse(memoised);
  const each = fields.reduce((sum, { epsilon }) => sum + epsilon, 0);
  const kept = () => JSON.parse(store.kept.metricldp)[name].memory;
  await survey.answer({ x: 3 }, { wave: "1" });
  const first = kept();
  assert.equal(Object.keys(first).length, 1);
  for (let k = 2; k < 30; k++) await survey.answer({ x: 3 }, { wave: String(k) });
  assert.deepEqual(kept(), first);
  assert.equal((await survey.ledger()).spent, each);
  const reports = Object.values(JSON.parse(store.kept.metricldp)[name].answers).map(({ body }) => body.slice(32));
  assert.ok(new Set(reports).size > 1); // the second blur is fresh
  await survey.answer({ x: 5 }, { wave: "other" });
  assert.equal(Object.keys(kept()).length, 2);
  assert.equal((await survey.ledger()).spent, 2 * each);
  assert.match(survey.promise(), /all reports of one response together/);
  assert.ok(survey.certify().holds);
});

test("waves may have the names of properties of every object", async () => {
  const { bodies, close, send } = await collector({});
  const store = new Store(), waves = ["constructor", "__proto__", "toString", "hasOwnProperty"], ids = [];
  for (const wave of waves) {
    const survey = await opened(store, { send });
    assert.deepEqual(await survey.status(wave), {});
    const { id, state } = await survey.answer(person, { wave });
    assert.equal(state, "sent", wave);
    assert.deepEqual(await survey.answer(person, { wave }), { id, state });
    ids.push(id);
  }
  assert.equal(bodies.length, waves.length);
  const survey = await opened(store);
  for (const [k, wave] of waves.entries()) assert.deepEqual(await survey.status(wave), { id: ids[k], state: "sent" });
  const { surveys, spent } = await survey.ledger();
  assert.deepEqual(Object.keys(surveys[fingerprint].answers).sort(), [...waves].sort());
  assert.equal(surveys[fingerprint].reports, waves.length);
  assert.equal(spent, surveys[fingerprint].spent);
  await close();
});

test("attributes and categories may have these names, too", async () => {
  const { bodies, close, send } = await collector({});
  const survey = await open(odd, { pin: pinOf(odd), store: new Store(), send });
  const whole = JSON.parse('{"constructor": 3, "toString": "__proto__", "__proto__": 1}');
  for (const name of Object.keys(whole)) {
    const { [name]: _, ...rest } = whole;
    await assert.rejects(survey.answer(rest), { reason: "missing" }, name);
  }
  assert.equal((await survey.answer(whole)).state, "sent");
  assert.equal((await survey.answer({ ...whole, toString: "constructor" }, { wave: "2" })).state, "sent");
  await assert.rejects(survey.answer({ ...whole, toString: "valueOf" }, { wave: "3" }), { reason: "name" });
  assert.equal(bodies.length, 2);
  await close();
});
