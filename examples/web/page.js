import { open } from "./metricldp.js";

const PIN = "78ac792a2fe684aa0efb91a9ab5dfadc71bfa68e1753a98bbcf631e1e14f8fd5";
const at = (id) => document.getElementById(id);
const listed = (id, lines) =>
  at(id).replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
const number = (id) => (at(id).value.trim() ? at(id).valueAsNumber : null);
const STATES = {
  sent: "Thank you. Your blurred answers have arrived.",
  waiting: "Your blurred answers are kept here and will be sent later. You may close this page.",
  refused: "The collection did not take your report; nothing more will be sent.",
};
const WRONG = { missing: "is missing", range: "is outside the range", kind: "is no number", whole: "is no whole number" };

try {
  const survey = await open("survey.client.json", { pin: PIN, send: location.origin });
  const { holds, lines } = survey.certify();
  listed("promise", survey.promise().split("\n"));
  listed("lines", lines);
  at("proof").textContent = holds
    ? "Your browser has just proved this promise from the numbers that it blurs with."
    : "Your browser could not prove this promise. Nothing will be sent.";
  at("send").disabled = !holds;

  const tell = async () => {
    const { state } = await survey.status(), { spent } = await survey.ledger();
    if (state) {
      at("told").textContent = STATES[state];
      at("send").disabled = true;
    }
    at("ledger").textContent = `Spent on this device so far: epsilon ${spent}.`;
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
      at("form").reset(); // nobody who comes after you reads your answers here
      await tell();
    } catch (error) {
      const [name] = error.message.split(":");
      at("told").textContent = `Your ${name} ${WRONG[error.reason] || "was refused"}.`;
      at(name)?.focus();
    }
  });
  await tell();
} catch (error) {
  at("proof").textContent = `This survey cannot be opened (${error.reason || error.message}). Nothing will be sent.`;
}
