// node --test storage_test.js: what the client stores, sends, sends again, and rejects.
// MANIFEST names a file with manifests: of a plain survey, of one with a memoised attribute, of one
// whose attributes and categories have the names of properties of every object, of one with an
// optional attribute, and of one whose guarantee does not hold; and their epsilons for one report.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";
import { InvalidManifestError, InvalidValueError, MetricLdpError, open } from "../../clients/js/metricldp.js";

const { manifests: [text, memoised, odd, optional, broken], epsilons, length } = JSON.parse(readFileSync(process.env.MANIFEST, "utf8"));
const fingerprintOf = (manifest) => createHash("sha256").update(manifest).digest("hex");
const fingerprint = fingerprintOf(text);
const response = { age: 42, income: 31000 };

class Store {
  constructor(items = {}) {
    this.items = items;
  }
  getItem(key) {
    return this.items[key] ?? null;
  }
  setItem(key, value) {
    this.items[key] = value;
  }
  get surveys() {
    return JSON.parse(this.items.metricldp);
  }
}

/** A collector with these responses, one after the other, and what it received. */
async function collector(...responses) {
  const bodies = [], heads = [], paths = [];
  const server = createServer((request, reply) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      bodies.push(Buffer.concat(parts));
      heads.push(request.headers);
      paths.push(request.url);
      const next = responses.length > 1 ? responses.shift() : responses[0];
      if (next === "lost") return request.socket.destroy();
      const { status = 200, type = "application/json", body = { accepted: 1, duplicate: 0, rejected: {} }, ...more } = next;
      reply.writeHead(status, { "content-type": type, ...more });
      reply.end(typeof body === "string" ? body : JSON.stringify(body));
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => new Promise((done) => server.close(done).closeAllConnections());
  return { bodies, heads, paths, close, send: `http://127.0.0.1:${server.address().port}/` };
}

const opened = (store, more = {}) => open(text, { fingerprint, store, ...more });
const problem = (status, reason) => ({ status, type: "application/problem+json", body: { type: `/problems/${reason}` } });

test("a report is one record, without a content type that would need a preflight", async () => {
  const { bodies, heads, paths, close, send } = await collector({});
  const survey = await opened(new Store(), { send });
  const { id, state } = await survey.report(response);
  assert.equal(state, "sent");
  assert.equal(paths[0], `/v1/surveys/${fingerprint}/reports`);
  assert.equal(bodies[0].length, 16 + length);
  assert.equal(bodies[0].subarray(0, 16).toString("hex"), id);
  assert.equal(bodies[0].readUInt32BE(0), Math.floor(Date.now() / 86400000));
  assert.equal(bodies[0].subarray(16, 33).toString("hex"), "01" + fingerprint.slice(0, 32));
  assert.equal(heads[0]["content-type"], undefined);
  assert.equal(heads[0].cookie, undefined);
  await close();
});

test("a second call randomizes nothing; a new wave is a new report", async () => {
  const { bodies, close, send } = await collector({});
  const survey = await opened(new Store(), { send });
  const first = await survey.report(response), again = await survey.report({ age: 10, income: 0 });
  assert.deepEqual(again, first);
  assert.equal(bodies.length, 1);
  const next = await survey.report(response, { wave: "2" });
  assert.notEqual(next.id, first.id);
  assert.equal(bodies.length, 2);
  assert.notDeepEqual(bodies[0], bodies[1]);
  await close();
});

test("a response that is lost on the way: the same bytes again", async () => {
  const { bodies, close, send } = await collector("lost", { body: { accepted: 0, duplicate: 1, rejected: {} } });
  const survey = await opened(new Store(), { send });
  assert.equal((await survey.report(response)).state, "waiting");
  await survey.flush();
  assert.equal((await survey.status()).state, "sent");
  assert.equal(bodies.length, 2);
  assert.deepEqual(bodies[0], bodies[1]);
  await close();
});

test("a tab that is closed and opened again sends the same bytes", async () => {
  const first = await collector({ status: 500, body: {} }), second = await collector({});
  const store = new Store();
  await (await opened(store, { send: first.send })).report(response);
  const later = await opened(new Store(structuredClone(store.items)), { send: second.send });
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
  assert.equal((await survey.report(response)).state, "waiting");
  const { body } = store.surveys[fingerprint].waves[""];
  await listeners.online();
  assert.equal((await survey.status()).state, "waiting");
  const back = await collector({});
  const again = await opened(store, { send: back.send });
  await again.flush();
  assert.equal(back.bodies[0].toString("hex"), body);
  await back.close();
});

test("which responses of a collector are final", async () => {
  const cases = [
    [problem(400, "range"), "rejected", "range"],
    [problem(410, "closed"), "rejected", "closed"],
    [{ body: { accepted: 0, duplicate: 0, rejected: { late: 1 } } }, "rejected", "late"],
    [problem(408, "slow"), "waiting"],
    [problem(429, "many"), "waiting"],
    [problem(503, "busy"), "waiting"],
    [{ status: 500, body: {} }, "waiting"],
    [{ status: 404, type: "text/html", body: "<p>not here" }, "waiting"],
    [problem(404, "unknown-survey"), "waiting"], // it may be opened later, or the address be corrected
    [{ status: 200, type: "text/html", body: "<p>log in to this network" }, "waiting"],
    [{ status: 403, body: { error: "no" } }, "waiting"],
    [{ body: { accepted: 0, duplicate: 0, rejected: {} } }, "waiting"],
    ["lost", "waiting"],
  ];
  for (const [reply, state, reason] of cases) {
    const { close, send } = await collector(reply), store = new Store();
    const survey = await opened(store, { send });
    const found = await survey.report(response);
    assert.deepEqual([found.state, found.reason], [state, reason], JSON.stringify(reply));
    const { body } = store.surveys[fingerprint].waves[""];
    assert.equal(body !== undefined, state === "waiting"); // deleted as soon as it is not needed
    await close();
  }
});

test("Retry-After is obeyed", async () => {
  const { bodies, close, send } = await collector({ ...problem(503, "busy"), "retry-after": "1" }, {});
  const survey = await opened(new Store(), { send });
  await survey.report(response);
  await survey.flush();
  assert.equal(bodies.length, 1);
  await new Promise((done) => setTimeout(done, 1050));
  await survey.flush();
  assert.equal(bodies.length, 2);
  assert.equal((await survey.status()).state, "sent");
  await close();
});

test("two tabs randomize once", async () => {
  const { bodies, close, send } = await collector({});
  const store = new Store();
  const tabs = await Promise.all([1, 2, 3, 4].map(() => opened(store, { send })));
  const found = await Promise.all(tabs.map((tab, k) => tab.report({ age: 10 * k, income: 0 })));
  assert.equal(new Set(found.map(({ id }) => id)).size, 1);
  assert.equal(new Set(bodies.map((body) => body.toString("hex"))).size, 1);
  const { surveys } = await tabs[0].accountant();
  assert.equal(surveys[fingerprint].reports, 1);
  await close();
});

test("another manifest is rejected", async () => {
  const store = new Store();
  const rejected = (call, reason, message) => assert.rejects(call, (error) => {
    assert.ok(error instanceof InvalidManifestError && error instanceof MetricLdpError);
    assert.equal(error.reason, reason);
    return !message || message.test(error.message);
  });
  await rejected(open(text, { fingerprint: "0".repeat(64), store }), "fingerprint", RegExp(fingerprint));
  await rejected(open(text, { store }), "fingerprint");
  await rejected(open(text), "fingerprint");
  await rejected(open(text.replace('"high":99', '"high":98'), { fingerprint, store }), "fingerprint");
  const changed = (from, to) => {
    assert.ok(text.includes(from));
    const other = text.replace(from, to);
    return open(other, { fingerprint: fingerprintOf(other), store });
  };
  await rejected(changed('"metricldp":1', '"metricldp":2'), "manifest");
  await rejected(changed('"metricldp":1', '"metricldp":1,"more":1'), "manifest");
  await rejected(changed('"kind":"geometric"', '"kind":"constructor"'), "manifest", /constructor is not supported/);
  await rejected(changed('"kind":"geometric"', '"kind":"hadamard"'), "manifest", /hadamard is not supported/);
  await rejected(open(broken, { fingerprint: fingerprintOf(broken), store }), "guarantee");
  assert.deepEqual(store.items, {});
});

test("the manifest can be fetched", async () => {
  const { close, send } = await collector({ body: text });
  const survey = await open(send + "survey.client.json", { fingerprint, store: new Store() });
  assert.equal(survey.fingerprint, fingerprint);
  await close();
});

test("the accountant adds up, and a limit holds", async () => {
  const store = new Store(), survey = await opened(store, { limit: 100 }), [each] = epsilons;
  await survey.report(response);
  await survey.report(response, { wave: "b" });
  const { surveys, epsilon } = await survey.accountant();
  assert.equal(epsilon, 2 * each);
  assert.deepEqual({ ...surveys }, { [fingerprint]: { attributes: ["age", "income"], reports: 2, epsilon: 2 * each } });
  const before = store.items.metricldp;
  const strict = await opened(store, { limit: 2.5 * each });
  await assert.rejects(strict.report(response, { wave: "c" }), { reason: "limit" });
  assert.equal(store.items.metricldp, before);
  const other = await open(optional, { fingerprint: fingerprintOf(optional), store, limit: 100 });
  await other.report({});
  assert.equal((await survey.accountant()).epsilon, 2 * each + epsilons[3]);
});

test("invites and tokens go through as they are", async () => {
  for (const size of [32, 272]) {
    const bytes = Buffer.from(Array.from({ length: size }, (_, k) => (k * 37 + 251) % 256));
    const { bodies, close, send } = await collector({});
    const survey = await opened(new Store(), { send });
    const { id } = await survey.report(response, { invite: bytes.toString("hex") });
    assert.equal(id, bytes.subarray(0, 16).toString("hex"));
    assert.deepEqual(bodies[0].subarray(0, size), bytes);
    assert.equal(bodies[0].length, size + length);
    await close();
  }
  const survey = await opened(new Store());
  await assert.rejects(survey.report(response, { invite: "AAAA" }), { reason: "invite" });
  assert.deepEqual(await survey.status(), {});
});

test("nothing is sent that could not be stored", async () => {
  const { bodies, close, send } = await collector({});
  const full = new Store();
  full.setItem = () => {
    throw new Error("quota");
  };
  const survey = await opened(full, { send });
  await assert.rejects(survey.report(response), /quota/);
  await survey.flush();
  assert.equal(bodies.length, 0);
  await close();
});

test("an invalid value changes nothing, and is not in the message", async () => {
  const store = new Store(), survey = await opened(store);
  for (const [value, reason] of [[123456, "range"], [4.25, "whole"], ["x7", "kind"], [undefined, "missing"], [[], "kind"]])
    await assert.rejects(survey.report({ ...response, age: value }), (error) => {
      assert.ok(error instanceof InvalidValueError);
      assert.deepEqual([error.reason, error.attribute], [reason, "age"]);
      return error.message === `age: ${reason}`;
    });
  for (const value of [null, undefined, 3, "text"]) await assert.rejects(survey.report(value), { reason: "kind" });
  assert.deepEqual(store.items, {});
  await survey.report({ ...response, age: 123456 }, { clip: true });
});

test("a misspelt name is rejected if an attribute is optional", async () => {
  const survey = await open(optional, { fingerprint: fingerprintOf(optional), store: new Store() });
  await assert.rejects(survey.report({ X: 1 }), { reason: "kind", attribute: "X" });
  assert.equal((await survey.report({ x: null })).state, "waiting");
});

test("random words are never the same", async () => {
  const survey = await opened(new Store()), ids = new Set(), store = new Store(), other = await opened(store);
  for (let k = 0; k < 200; k++) {
    ids.add((await survey.report(response, { wave: String(k) })).id);
    await other.report(response, { wave: String(k) });
  }
  assert.equal(ids.size, 200);
  const bodies = Object.values(store.surveys[fingerprint].waves).map(({ body }) => body.slice(32));
  assert.ok(new Set(bodies).size > 150);
});

test("memoised attributes: one first randomization for each value, and the accountant counts values", async () => {
  const store = new Store(), name = fingerprintOf(memoised), [, each] = epsilons;
  const survey = await open(memoised, { fingerprint: name, store });
  const memory = () => store.surveys[name].memory;
  await survey.report({ x: 3 }, { wave: "1" });
  const first = memory();
  assert.equal(Object.keys(first).length, 1);
  for (let k = 2; k < 30; k++) await survey.report({ x: 3 }, { wave: String(k) });
  assert.deepEqual(memory(), first);
  assert.equal((await survey.accountant()).epsilon, each);
  const bodies = Object.values(store.surveys[name].waves).map(({ body }) => body.slice(32));
  assert.ok(new Set(bodies).size > 1); // the second randomization is drawn again
  await survey.report({ x: 5 }, { wave: "other" });
  assert.equal(Object.keys(memory()).length, 2);
  assert.equal((await survey.accountant()).epsilon, 2 * each);
  assert.match(survey.guarantee()[0], /all reports of one response together/);
  assert.ok(survey.certify().holds);
  const [key] = Object.keys(first);
  for (const wrong of [99, -1, 1.5, "1", null]) {
    store.items.metricldp = JSON.stringify({ [name]: { ...store.surveys[name], memory: { [key]: wrong } } });
    await assert.rejects(survey.report({ x: 3 }, { wave: `wrong ${wrong}` }), { reason: "memory" });
  }
});

test("waves may have the names of properties of every object", async () => {
  const { bodies, close, send } = await collector({});
  const store = new Store(), waves = ["constructor", "__proto__", "toString", "hasOwnProperty"], ids = [];
  for (const wave of waves) {
    const survey = await opened(store, { send });
    assert.deepEqual(await survey.status(wave), {});
    const { id, state } = await survey.report(response, { wave });
    assert.equal(state, "sent", wave);
    assert.deepEqual(await survey.report(response, { wave }), { id, state });
    ids.push(id);
  }
  assert.equal(bodies.length, waves.length);
  const survey = await opened(store);
  for (const [k, wave] of waves.entries()) assert.deepEqual(await survey.status(wave), { id: ids[k], state: "sent" });
  const { surveys, epsilon } = await survey.accountant();
  assert.deepEqual(Object.keys(store.surveys[fingerprint].waves).sort(), [...waves].sort());
  assert.equal(surveys[fingerprint].reports, waves.length);
  assert.equal(epsilon, surveys[fingerprint].epsilon);
  await close();
});

test("attributes and categories may have these names, too", async () => {
  const { bodies, close, send } = await collector({});
  const survey = await open(odd, { fingerprint: fingerprintOf(odd), store: new Store(), send });
  const whole = JSON.parse('{"constructor": 3, "toString": "__proto__", "__proto__": 1}');
  for (const name of Object.keys(whole)) {
    const { [name]: _, ...rest } = whole;
    await assert.rejects(survey.report(rest), { reason: "missing" }, name);
  }
  assert.equal((await survey.report(whole)).state, "sent");
  assert.equal((await survey.report({ ...whole, toString: "constructor" }, { wave: "2" })).state, "sent");
  await assert.rejects(survey.report({ ...whole, toString: "valueOf" }, { wave: "3" }), { reason: "name" });
  assert.equal(bodies.length, 2);
  await close();
});
