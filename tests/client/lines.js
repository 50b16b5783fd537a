// node lines.js MANIFEST FINGERPRINT: responses as lines of JSON in, reports as lines out; with words of the browser.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { forTestsOnly } from "../../clients/js/metricldp.js";

const { deviceOf, parse, wordsOf } = forTestsOnly;
const device = deviceOf(parse(readFileSync(process.argv[2], "utf8"), process.argv[3]));
createInterface({ input: process.stdin }).on("line", (line) => {
  console.log(device.randomize(device.positions(JSON.parse(line)), wordsOf()));
});
