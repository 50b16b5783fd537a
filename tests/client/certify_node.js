// node certify_node.js FILE: what the client proves of each manifest of a list.
import { readFileSync } from "node:fs";
import { forTestsOnly } from "../../clients/js/metricldp.js";

const found = JSON.parse(readFileSync(process.argv[2], "utf8")).map((text) => {
  const start = performance.now(), { holds, lines } = forTestsOnly.surveyOf(text)[0].certify();
  return { holds, lines, ms: performance.now() - start };
});
console.log(JSON.stringify(found));
