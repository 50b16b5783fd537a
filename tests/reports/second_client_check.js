// node second_client_check.js vectors/*.json: how many facts the second client finds as files say.
"use strict";
const fs = require("fs");
const { Client, LAWS, Refused, Tape, hex } = require("./second_client.js");

function canonical(data) {
  if (Array.isArray(data)) return "[" + data.map(canonical).join() + "]";
  if (data === null || typeof data !== "object") return JSON.stringify(data);
  const pairs = Object.keys(data).sort().map((k) => JSON.stringify(k) + ":" + canonical(data[k]));
  return "{" + pairs.join() + "}";
}

// The files

let count = 0;
function same(file, said, found) {
  count++;
  if (said === found) return;
  console.log(`${file}: ${found} where the file says ${said}`);
  process.exitCode = 1;
}
function reason(call) {
  try { call(); } catch (wrong) {
    if (wrong instanceof Refused) return wrong.message;
    throw wrong;
  }
  return null;
}

for (const file of process.argv.slice(2)) {
  const data = JSON.parse(fs.readFileSync(file, "utf8"));
  for (const one of data.surveys || []) {
    const joint = JSON.parse(one.canonical).joint;
    if (joint.some(({ law }) => law.law !== "cells")) continue; // a law that it does not know
    const client = new Client(one.canonical, one.fingerprint);
    for (const fact of one.facts || []) {
      const tape = new Tape(fact.words);
      const memory = fact.memory && { ...fact.memory };
      same(file, fact.report, client.report(fact.person, tape, fact.clip, memory));
      if (memory) same(file, canonical(fact.remembered), canonical(memory));
      if (tape.used !== tape.words.length) same(file, "all words", `${tape.used} words`);
      if (reason(() => client.check(fact.report))) same(file, "a good report", "a bad one");
    }
    for (const fact of one.values || [])
      same(file, fact.refused, reason(() => client.report(fact.person, new Tape(""), fact.clip)));
    for (const fact of one.reports || [])
      same(file, fact.refused, reason(() => client.check(fact.report)));
  }
  for (const one of data.laws || [])
    for (const fact of one.facts) {
      const tape = new Tape(fact.words), field = LAWS.table(one.law).draw(fact.position, tape);
      same(file, fact.report, Number(field));
    }
  for (const one of data.tape || []) {
    const tape = new Tape(one.words);
    const found = BigInt(tape[one.call](...one.arguments.map(hex))).toString(16);
    same(file, `${one.found} of ${tape.words.length}`, `${found} of ${tape.used}`);
  }
  for (const one of data.canonical || []) same(file, one.text, canonical(one.data));
}
console.log(`${count} facts`);
