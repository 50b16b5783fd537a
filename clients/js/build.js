// node build.js: writes metricldp.js, all modules of src/ in one file. node build.js --check: compares.
import { readFileSync, writeFileSync } from "node:fs";

const MODULES = [
  ...["errors", "exact", "random_words", "canonical", "distributions", "levels", "metrics", "values"],
  ...["manifest", "report", "verify", "guarantee", "device", "client"],
];
const EXPORTED = ["CertificateError", "InvalidManifestError", "InvalidValueError", "MetricLdpError", "forTestsOnly", "open"];

const at = (path) => new URL(path, import.meta.url);
const names = new Map();
const parts = MODULES.map((name) => {
  const text = readFileSync(at(`src/${name}.js`), "utf8");
  const before = new Set(MODULES.slice(0, MODULES.indexOf(name)));
  const body = text.replace(/^import (?:{ .* } from )?"\.\/(\w+)\.js";.*\n/gm, (_, from) => {
    if (!before.has(from)) throw Error(`${name} imports ${from}, which comes later`);
    return "";
  });
  if (/^import/m.test(body)) throw Error(`${name} has an import that is not a line of its own`);
  for (const [, one] of body.matchAll(/^(?:export )?(?:async )?(?:const|let|class|function\*?) (\w+)/gm)) {
    if (names.has(one)) throw Error(`${one} is defined in ${names.get(one)} and in ${name}`);
    names.set(one, name);
  }
  return `// ${name}.js\n//\n${body.replace(/^export /gm, "").replace(/\n{3,}/g, "\n\n").trim()}\n`;
});
const head = "// Made by build.js from the modules in src/, in which this is easier to read. Do not edit it.\n";
const whole = `${head}\n${parts.join("\n")}\nexport { ${EXPORTED.join(", ")} };\n`;
const path = at("metricldp.js");

if (!process.argv.includes("--check")) writeFileSync(path, whole);
else if (readFileSync(path, "utf8") !== whole) {
  console.error("metricldp.js is not up to date; run node build.js");
  process.exitCode = 1;
}
