// Many browsers, simulated: each opens the survey with the real client, responds once, and sends.
//
//     node browsers.mjs http://127.0.0.1:8000/ FINGERPRINT < responses.jsonl
//
// Networks fail as real ones do, before a report was sent or after it arrived; tabs are closed and
// opened again.

import { createInterface } from "node:readline";
import { open } from "../../clients/js/metricldp.js";

const [base, fingerprint] = process.argv.slice(2);
const manifest = `${base}v1/surveys/${fingerprint}/manifest`;
const AT_ONCE = 64;

/** The storage of one browser, which outlives its tabs. */
const storage = (items = new Map()) => ({
  getItem: (key) => items.get(key) ?? null,
  setItem: (key, value) => void items.set(key, value),
});

const network = globalThis.fetch;
const text = await (await network(manifest)).text();
const counts = { sent: 0, offline: 0, lost: 0, reopened: 0 };

async function browse(response, k) {
  const store = storage();
  const tab = () => open(text, { fingerprint, store, send: base });
  const survey = await tab();
  await survey.report(response);
  if (k % 10 === 0) await (await tab()).report(response); // a second call makes no second report
  // What could not be sent waits in the storage. The next tab sends the same bytes.
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
globalThis.fetch = async (...request) => {
  const turn = ++requests % 20, posts = request[1]?.method === "POST";
  if (turn === 7 && posts) {
    counts.offline++;
    throw TypeError("no network");
  }
  const response = await network(...request);
  if (turn === 13 && posts) {
    counts.lost++;
    throw TypeError("the response was lost");
  }
  return response;
};

const responses = [];
for await (const line of createInterface({ input: process.stdin })) if (line) responses.push(JSON.parse(line));
let next = 0;
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    while (next < responses.length) {
      const k = next++;
      await browse(responses[k], k);
    }
  }),
);
console.log(JSON.stringify(counts));
