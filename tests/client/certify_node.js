// node certify_node.js FILE: what the client proves of each manifest of a list.
import { readFileSync } from "node:fs";
import { certified } from "./check.js";

console.log(JSON.stringify(certified(JSON.parse(readFileSync(process.argv[2], "utf8")))));
