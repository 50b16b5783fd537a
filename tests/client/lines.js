// node lines.js MANIFEST: people as lines of JSON in, reports as lines out; with fair coins.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { forTestsOnly } from "../../clients/js/metricldp.js";

const [, positionsOf, reportOf] = forTestsOnly.surveyOf(readFileSync(process.argv[2], "utf8"));
createInterface({ input: process.stdin }).on("line", (line) => {
  console.log(reportOf(positionsOf(JSON.parse(line)), forTestsOnly.tapeOf()));
});
