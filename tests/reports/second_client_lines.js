// node second_client_lines.js canonical.txt fingerprint: people as lines of JSON in, reports out.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const readline = require("readline");
const { Client, Refused, Tape } = require("./second_client.js");

class Coins extends Tape {
  constructor() { super(""); }
  word() { return crypto.randomBytes(8).readBigUInt64LE(); }
}

const client = new Client(fs.readFileSync(process.argv[2], "utf8"), process.argv[3]);
const coins = new Coins();
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  try {
    console.log(client.report(JSON.parse(line), coins, process.argv[4] === "clip"));
  } catch (wrong) {
    if (!(wrong instanceof Refused)) throw wrong;
    console.log(`rejected ${wrong.message}`);
  }
});
