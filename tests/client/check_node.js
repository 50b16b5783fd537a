// node check_node.js FILE: checks the facts of a file.
import { readFileSync } from "node:fs";
import { check } from "./check.js";

const { wrong, ...result } = check(JSON.parse(readFileSync(process.argv[2], "utf8")));
console.log(JSON.stringify({ ...result, wrong: wrong.slice(0, 5), differ: wrong.length }));
