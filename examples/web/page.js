import { open } from "./metricldp.js";

const PIN = "cbef72662101855e8868ddc78f8a800dd6d0830932100d17ae020049453a9624";
const at = (id) => document.getElementById(id);
const listed = (id, lines) =>
  at(id).replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
const number = (id) => (at(id).value.trim() ? at(id).valueAsNumber : null);
const STATES = {
  sent: "Thank you. Your report has arrived.",
  waiting: "Your report is stored on this device and will be sent later. You may close this page.",
  refused: "The collector rejected your report. It will not be sent again.",
};
const WRONG = { missing: "is missing", range: "is outside the range", kind: "is not a number", whole: "is not a whole number" };

try {
  const survey = await open("survey.client.json", { pin: PIN, send: location.origin });
  const { holds, lines } = survey.certify();
  listed("promise", survey.promise().split("\n"));
  listed("lines", lines);
  at("proof").textContent = holds
    ? "Your browser has proved these guarantees from the probabilities that it randomizes with."
    : "Your browser could not prove these guarantees. Nothing will be sent.";
  at("send").disabled = !holds;

  const tell = async () => {
    const { state } = await survey.status(), { spent } = await survey.ledger();
    if (state) {
      at("told").textContent = STATES[state];
      at("send").disabled = true;
    }
    at("ledger").textContent = `Privacy loss of all reports from this device: epsilon ${spent}.`;
  };
  at("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!at("agree").checked) {
      at("told").textContent = "Please tick the box if you agree.";
      at("agree").focus();
      return;
    }
    try {
      await survey.answer({ age: number("age"), income: number("income") });
      at("form").reset(); // the next user of the device cannot read the responses
      await tell();
    } catch (error) {
      const [name] = error.message.split(":");
      at("told").textContent = `Your ${name} ${WRONG[error.reason] || "is invalid"}.`;
      at(name)?.focus();
    }
  });
  await tell();
} catch (error) {
  at("proof").textContent = `This survey cannot be opened (${error.reason || error.message}). Nothing will be sent.`;
}
