// Measures many cells: asks for as many runs as the queue takes, again and again, until
// nothing is left or somebody stops it, and shows the table as it fills.
import { parsed, problem, readable } from "./common.js";

const form = document.getElementById("all");
const stop = document.getElementById("stop");
const bar = document.getElementById("progress");
const said = document.getElementById("said");
const wait = (s) => new Promise((r) => setTimeout(r, s * 1000));

// same finds an element in a fresh rendering again: a cell's button, a run's link; where
// it is gone, the table it was in.
function same(e, old, fresh) {
  const like = [...fresh.querySelectorAll("button[value], a[href]")];
  const table = [...old.querySelectorAll(".scroll")].indexOf(e.closest(".scroll"));
  return like.find((f) => f.value === e.value && f.getAttribute("href") === e.getAttribute("href") && e.matches("button, a")) ?? fresh.querySelectorAll(".scroll")[table];
}

async function refresh() {
  const page = await parsed(await fetch(location.href, { headers: { Accept: "text/html" } }));
  const fresh = page.getElementById("cells");
  const old = document.getElementById("cells");
  const focused = old.contains(document.activeElement) && same(document.activeElement, old, fresh);
  const scrolled = [...old.querySelectorAll(".scroll")].map((e) => e.scrollLeft);
  old.replaceWith(fresh);
  fresh.querySelectorAll(".scroll").forEach((e, i) => { e.scrollLeft = scrolled[i] ?? 0; });
  if (focused) focused.focus({ preventScroll: true });
  return { missing: Number(fresh.dataset.missing), waiting: Number(fresh.dataset.waiting) };
}

async function watch() {
  for (;;) {
    await wait(2);
    if ((await refresh()).waiting === 0) return;
  }
}

async function measure(body) {
  let stopped = false, total = 0, left = 1;
  stop.hidden = bar.hidden = false;
  stop.onclick = () => { stopped = true; };
  while (left > 0 && !stopped) {
    const answer = await fetch("/audit/guarantees", { method: "POST", body, headers: readable });
    if (answer.status === 202) {
      const told = await answer.json();
      left = told.left;
      total = Math.max(total, told.runs.length + told.left);
    } else if (answer.status !== 429) {
      said.textContent = await problem(answer);
      break;
    }
    for (let i = 0; i < (left > 0 ? Number(answer.headers.get("Retry-After") ?? 6) / 2 : 0) && !stopped; i++) {
      await wait(2);
      const now = await refresh();
      show(total, now);
    }
  }
  for (;;) {
    const now = await refresh();
    show(total, now);
    if (now.waiting === 0) break;
    await wait(2);
  }
  stop.hidden = bar.hidden = true;
}

function show(total, now) {
  bar.max = Math.max(total, 1);
  bar.value = Math.max(0, total - now.waiting - now.missing);
  said.textContent = `${bar.value}/${bar.max}`;
}

form.addEventListener("submit", (e) => {
  e.preventDefault();
  measure(new URLSearchParams(new FormData(form, e.submitter)));
});
if (Number(document.getElementById("cells").dataset.waiting) > 0) watch();
