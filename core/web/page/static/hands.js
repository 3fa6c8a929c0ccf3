// The interactive side of a chapter: an order is watched on its way, an outage counts
// down. Without this file the forms lead to the event's page and back.
import { reveal } from "./common.js";

const place = document.getElementById("place");
const travel = document.getElementById("travel");
const live = document.getElementById("live");

// draw writes where the event is, from its trail.
function draw(trail) {
  const steps = [
    ["order", trail.order],
    ...(trail.outbox || place.dataset.outbox ? [["outbox", trail.outbox && trail.outbox.status !== "pending", trail.outbox && trail.outbox.status + (trail.outbox.attempts ? ` ${trail.outbox.attempts}×` : "")]] : []),
    ["processed", trail.processed.length > 0, trail.processed.length > 1 ? `${trail.processed.length}×` : ""],
    ["email", trail.emails.length > 0, trail.emails.length > 1 ? `${trail.emails.length}×` : ""],
  ];
  travel.hidden = false;
  travel.replaceChildren(...steps.map(([name, reached, note]) => {
    const li = document.createElement("li");
    const [sign, kind] = reached ? ["✓", "delivered"] : trail.valid === "unknown" ? ["…", "pending"] : ["✗", "lost"];
    li.className = "outcome is-" + kind;
    li.textContent = `${sign} ${travel.dataset[name]}${note ? " (" + note + ")" : ""}`;
    return li;
  }));
  const end = document.createElement("li");
  const link = document.createElement("a");
  link.href = `/audit/event/${trail.event_id}?chapter=${trail.chapter}`;
  link.textContent = trail.why;
  end.append(link);
  travel.append(end);
  return trail.why;
}

// refresh brings the worker's counts and the rows it has given up to what they are now;
// a card that somebody is in keeps still.
async function refresh() {
  const response = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const id of ["worker", "failed"]) {
    const old = document.getElementById(id), fresh = page.getElementById(id);
    if (old && fresh && !old.contains(document.activeElement)) { old.replaceWith(fresh); reveal(fresh); }
  }
}

// watch asks the audit until the verdict is in, a minute at most.
async function watch(id, chapter) {
  for (let i = 0; i < 120; i++) {
    const response = await fetch(`/audit/event/${id}?chapter=${chapter}`, { headers: { Accept: "application/json" } });
    const trail = await response.json();
    if (!response.ok) { travel.hidden = false; travel.textContent = `${trail.detail}. ${trail.fix}`; return; }
    const why = draw(trail);
    if (trail.valid !== "unknown") { live.textContent = why; refresh(); return; }
    await new Promise((r) => setTimeout(r, 500));
  }
}

place?.addEventListener("submit", async (e) => {
  e.preventDefault();
  const response = await fetch(place.action, { method: "POST", body: new URLSearchParams(new FormData(place)), headers: { Accept: "application/json" } });
  const answer = await response.json();
  if (!answer.event_id) { travel.hidden = false; travel.textContent = `${answer.detail}. ${answer.fix}`; return; }
  if (answer.status !== "committed") { travel.hidden = false; travel.textContent = answer.note ?? answer.detail; return; }
  refresh();
  watch(answer.event_id, place.dataset.chapter);
});

const countdown = document.querySelector(".countdown");
if (countdown) {
  const until = Date.now() + Number(countdown.dataset.left) * 1000;
  const timer = setInterval(() => {
    const left = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    countdown.textContent = left;
    if (left === 0) { clearInterval(timer); location.reload(); }
  }, 500);
}
