// Checks the client against facts that Python computed, in node and in a browser: how many, and what differs.
import { forTestsOnly } from "../../clients/js/metricldp.js";

const { certify, deviceOf, parse, sentences, wordsOf } = forTestsOnly;

/** Values from JSON, in which numbers that are not finite are objects. */
const revived = (response) =>
  Object.fromEntries(Object.entries(response).map(([name, value]) => [name, value?.$number ? Number(value.$number) : value]));

/** The words of hexadecimal digits, and no more. */
function given(digits) {
  const words = (digits.match(/.{16}/g) || []).map((word) => BigInt("0x" + word));
  const next = () => {
    if (!words.length) throw Error("more words were read");
    return words.shift();
  };
  return [wordsOf(next), words];
}

const sorted = (memory) => JSON.stringify(Object.entries(memory).sort());

/** The result of a call, or the error. */
function attempted(call) {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

/** Whether a manifest is invalid, or its guarantee holds or is broken. */
export function verdict(text) {
  const result = attempted(() => certify(parse(text, "0".repeat(64))));
  if (result instanceof Error) return result.reason === "manifest" ? "invalid" : String(result);
  return result.holds ? "holds" : "broken";
}

export function check({ facts = [], changes = [] }) {
  const counts = { reports: 0, values: 0, sentences: 0, certificates: 0, changes: 0 }, wrong = [];
  const same = (kind, expected, actual, about) => {
    counts[kind]++;
    if (expected !== actual) wrong.push(`${kind}: ${actual} in place of ${expected} for ${about.slice(0, 3000)}`);
  };
  let slowest = 0;
  for (const { manifest: text, fingerprint, certificates, sentences: lines, reports, values } of facts) {
    const manifest = parse(text, fingerprint), start = performance.now(), certificate = certify(manifest), { proofs } = certificate;
    slowest = Math.max(slowest, performance.now() - start);
    const written = sentences(manifest), device = certificate.holds && deviceOf(manifest);
    for (let k = 0; k < Math.max(lines.length, written.length); k++) same("sentences", lines[k], written[k], text);
    certificates.forEach(({ name, holds, loss, allowed }, k) => {
      const proof = proofs[k] || {};
      const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), 1e-300);
      const agrees = proof.name === name && proof.holds === holds && near(loss, proof.loss) && near(allowed, proof.allowed);
      same("certificates", true, agrees, JSON.stringify([certificates[k], proof]) + text);
    });
    if (proofs.length !== certificates.length) wrong.push(`proofs of ${text}`);
    for (const { response, clip, words: digits, report, memory, remembered } of reports) {
      const [words, left] = given(digits), own = memory && { ...memory };
      const actual = attempted(() => device.randomize(device.positions(revived(response), clip), words, own));
      const rest = left.length ? " with words left over" : "";
      same("reports", report, actual + rest, text + JSON.stringify(response));
      if (own && sorted(own) !== sorted(remembered)) wrong.push(`memory ${sorted(own)} in place of ${sorted(remembered)}`);
    }
    for (const { response, clip, positions, rejected } of values) {
      const actual = attempted(() => device.positions(revived(response), clip).map(String));
      same("values", rejected || String(positions), String(actual.reason || actual), `${JSON.stringify(response)} ${clip} ${text}`);
    }
  }
  for (const { manifest, verdict: expected, read } of changes)
    if (expected) same("changes", expected, verdict(manifest), manifest);
    else same("changes", read, attempted(() => !!parse(manifest, "")) === true, manifest);
  return { counts, count: Object.values(counts).reduce((a, b) => a + b), slowest, wrong };
}
