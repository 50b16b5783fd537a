// Checks the client against facts, in node and in a browser: how many, and what differs.
import { forTestsOnly } from "../../clients/js/metricldp.js";

const { LAWS, surveyOf } = forTestsOnly;
const tapeOf = (words) =>
  forTestsOnly.tapeOf(Uint32Array.from(words.match(/.{8}/g) || [], (half) => parseInt(half, 16)));

const sorted = (kept) => JSON.stringify(Object.entries(kept).sort());

function usedUp(coins) {
  try {
    coins.integer(1);
  } catch {
    return true;
  }
  return false;
}

/** What the client proves of each manifest, and how long it takes. */
export const certified = (texts) =>
  texts.map((text) => {
    const start = performance.now(), { holds, lines } = surveyOf(text)[0].certify();
    return { holds, lines, ms: performance.now() - start };
  });

export function check({ surveys = [], many = [], tape = [], laws = [] }) {
  let count = 0;
  const wrong = [];
  const same = (said, found, about) => {
    count++;
    if (said !== found) wrong.push(`${about}: ${found} where ${said} is said`);
  };
  for (const { manifest, facts = [], values = [] } of [...surveys, ...many]) {
    const [, positionsOf, reportOf] = surveyOf(manifest);
    for (const { person, words, report, clip, memory, remembered } of facts) {
      const coins = tapeOf(words), kept = memory && { ...memory };
      let found;
      try {
        found = reportOf(positionsOf(person, clip), coins, kept);
      } catch (error) {
        found = String(error);
      }
      const all = usedUp(coins) ? "" : " with words left over";
      same(report, found + all, manifest.slice(0, 300) + JSON.stringify(person));
      if (kept) same(sorted(remembered), sorted(kept), "what is kept");
    }
    for (const { person, clip, refused } of values) {
      let found = null;
      try {
        positionsOf(person, clip);
      } catch (error) {
        found = error.reason;
      }
      same(refused, found, `value ${JSON.stringify(person)}`);
    }
  }
  for (const { call, arguments: said, words, found } of tape) {
    const coins = tapeOf(words), [first, second] = said.map((text) => BigInt("0x" + text));
    const answers = {
      integer: () => coins.integer(Number(first)),
      toss: () => coins.toss(said[0]),
      uniform: () => coins.uniform(first),
      rounded: () => coins.rounded(Number(first)),
      lanes: () => coins.lanes(said[0].padStart(16, 0), Number(second))
        .reduceRight((all, lanes) => (all << 32n) | BigInt(lanes), 0n),
    };
    same(`${BigInt("0x" + found)} true`, `${BigInt(answers[call]())} ${usedUp(coins)}`, call);
  }
  for (const { law, facts } of laws)
    for (const { position, words, report } of facts)
      LAWS.table(law).draw(position, tapeOf(words), (found) => same(report, found, "table"));
  return { count, wrong };
}
