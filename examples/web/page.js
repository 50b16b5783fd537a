import { open } from "./metricldp.js";

const FINGERPRINT = "7eb78a39edb693a1562281459648290186b5a11644d4db206b8e5266ca80c0e7";
const at = (id) => document.getElementById(id);
const list = (id, lines) =>
  at(id).replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
const number = (id) => (at(id).value.trim() ? at(id).valueAsNumber : null);
const STATES = {
  sent: "Thank you. Your report has arrived.",
  waiting: "Your report is stored on this device and will be sent later. You may close this page.",
  rejected: "The collector rejected your report. It will not be sent again.",
};
const REASONS = { missing: "is missing", range: "is outside the range", kind: "is not a number", whole: "is not a whole number" };

try {
  // A manifest whose guarantee does not hold is not opened.
  const survey = await open("survey.client.json", { fingerprint: FINGERPRINT, send: location.origin });
  list("guarantee", survey.guarantee());
  list(
    "proofs",
    survey.certify().proofs.map(({ name, loss, allowed }) => `${name}: exact loss ${loss.toFixed(9)}, allowed ${allowed.toFixed(9)}`),
  );
  at("proof").textContent = "Your browser has proved these guarantees from the probabilities that it randomizes with.";
  at("send").disabled = false;

  const show = async () => {
    const { state } = await survey.status(), { epsilon } = await survey.accountant();
    if (state) {
      at("message").textContent = STATES[state];
      at("send").disabled = true;
    }
    at("accountant").textContent = `Privacy loss of all reports from this device: epsilon ${epsilon}.`;
  };
  at("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!at("agree").checked) {
      at("message").textContent = "Please tick the box if you agree.";
      at("agree").focus();
      return;
    }
    try {
      await survey.report({ age: number("age"), income: number("income") });
      at("form").reset(); // the next user of the device cannot read the responses
      await show();
    } catch ({ attribute, message, reason }) {
      at("message").textContent = attribute ? `Your ${attribute} ${REASONS[reason] || "is invalid"}.` : message;
      at(attribute)?.focus();
    }
  });
  await show();
} catch ({ message, reason }) {
  const why = reason === "guarantee" ? "Your browser could not prove the guarantee" : "This survey cannot be opened";
  at("proof").textContent = `${why} (${reason || message}). Nothing will be sent.`;
}
