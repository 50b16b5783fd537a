"use strict";
// Asks again when the question changes, or every ten seconds while watching, and swaps the answer.
const form = document.getElementById("question"), heard = document.getElementById("heard");
let waiting, last = 0;
const ask = async () => {
  const said = new URLSearchParams([...new FormData(form)].filter(([, word]) => word.trim()));
  const address = `${form.action}?${said}`, mine = ++last;
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
    heard.textContent = (answer.querySelector(".wrong") || answer.querySelector("h2")).textContent;
  } catch {
    document.getElementById("answer").classList.remove("busy");
    heard.textContent = "The server does not answer.";
  }
};
form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 400); });
form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); ask(); });
setInterval(() => { if (document.getElementById("anytime").checked && !document.hidden) ask(); }, 10000);
