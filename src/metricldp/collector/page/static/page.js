"use strict";
// Runs the query again when the form changes, or every ten seconds while monitoring.
const form = document.getElementById("query"), announcement = document.getElementById("announcement");
let timeout, last = 0;
const run = async () => {
  const fields = new URLSearchParams([...new FormData(form)].filter(([, text]) => text.trim()));
  const address = `${form.action}?${fields}`, mine = ++last;
  document.getElementById("answer").classList.add("busy");
  try {
    const page = new DOMParser().parseFromString(
      await (await fetch(address, { credentials: "same-origin" })).text(), "text/html");
    const answer = page.getElementById("answer");
    if (mine !== last) return;
    if (!answer) return form.submit();
    const old = document.getElementById("answer"), open = [...old.querySelectorAll("details")].map((d) => d.open);
    answer.querySelectorAll("details").forEach((d, k) => { d.open = !!open[k]; });
    old.replaceWith(answer);
    history.replaceState(null, "", answer.querySelector(".links a")?.href || address);
    announcement.textContent = (answer.querySelector(".error") || answer.querySelector("h2")).textContent;
  } catch {
    document.getElementById("answer").classList.remove("busy");
    announcement.textContent = "The server does not respond.";
  }
};
form.addEventListener("input", () => { clearTimeout(timeout); timeout = setTimeout(run, 400); });
form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timeout); run(); });
setInterval(() => { if (document.getElementById("anytime").checked && !document.hidden) run(); }, 10000);
