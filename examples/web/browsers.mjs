// Many browsers, simulated: each opens the survey with the real client, answers once, and sends.
//
//     node browsers.mjs http://127.0.0.1:8000/ FINGERPRINT PIN < people.jsonl
//
// Networks fail as real ones do, before a report was sent or after it arrived; tabs are closed and
// opened again.

import { createInterface } from "node:readline";
import { open } from "../../clients/js/metricldp.js";

const [base, fingerprint, pin] = process.argv.slice(2);
const manifest = `${base}v1/surveys/${fingerprint}/client.json`;
const AT_ONCE = 64;

/** The storage of one browser, which outlives its tabs. */
const storage = (kept = new Map()) => ({
  getItem: (key) => kept.get(key) ?? null,
  setItem: (key, value) => void kept.set(key, value),
});

const network = globalThis.fetch;
const text = await (await network(manifest)).text();
const counts = { sent: 0, offline: 0, lost: 0, reopened: 0 };

async function browse(person, k) {
  const store = storage();
  const tab = () => open(text, { pin, store, send: base });
  const survey = await tab();
  await survey.answer(person);
  if (k % 10 === 0) await (await tab()).answer(person); // asked again: no second report is made
  // What could not be sent waits in the storage. The next tab finds it, and sends the same bytes.
  for (let tries = 0; tries < 9 && (await survey.status()).state === "waiting"; tries++) {
    counts.reopened++;
    await (await tab()).flush();
  }
  const { state, reason } = await survey.status();
  if (state !== "sent") throw Error(`browser ${k}: ${state} ${reason ?? ""}`);
  counts.sent++;
}

// One in twenty requests fails before it is sent, one in twenty after it has arrived.
let requests = 0;
globalThis.fetch = async (...asked) => {
  const turn = ++requests % 20;
  if (turn === 7 && asked[1]?.method === "POST") {
    counts.offline++;
    throw TypeError("no network");
  }
  const answer = await network(...asked);
  if (turn === 13 && asked[1]?.method === "POST") {
    counts.lost++;
    throw TypeError("the answer was lost");
  }
  return answer;
};

const people = [];
for await (const line of createInterface({ input: process.stdin })) if (line) people.push(JSON.parse(line));
let next = 0;
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    while (next < people.length) {
      const k = next++;
      await browse(people[k], k);
    }
  }),
);
console.log(JSON.stringify(counts));
