// The interactive side of a chapter: an order is watched on its way, an outage counts
// down. Without this file the forms lead to the event's page and back.
import { parsed, problem, readable, reveal } from "./common.js";

const place = document.getElementById("place");
const travel = document.getElementById("travel");
const english = document.documentElement.lang === "en";
const live = document.getElementById("live");

// said is the audit's reason in the reader's language: its page has it, JSON is English.
let known = {};
async function said(trail) {
  if (english) return trail.why;
  if (known.id !== trail.event_id || known.why !== trail.why) {
    const answer = await fetch(`/audit/event/${trail.event_id}?chapter=${trail.chapter}`, { headers: { Accept: "text/html" } });
    known = { id: trail.event_id, why: trail.why, text: (await parsed(answer)).querySelector(".lead small")?.textContent ?? trail.why };
  }
  return known.text;
}

// draw writes where the event is, from its trail, and why.
function draw(trail, why) {
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
  link.textContent = why;
  end.append(link);
  travel.append(end);
}

// refresh brings the worker's counts and the rows it has given up to what they are now;
// a card that somebody is in keeps still.
async function refresh() {
  const response = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!response.ok) return;
  const page = await parsed(response);
  for (const id of ["worker", "failed"]) {
    const old = document.getElementById(id), fresh = page.getElementById(id);
    if (old && fresh && !old.contains(document.activeElement)) { old.replaceWith(fresh); reveal(fresh); }
  }
}

function tell(text) { travel.hidden = false; travel.textContent = text; }

// watch asks the audit until the verdict is in, a minute at most.
async function watch(id, chapter) {
  for (let i = 0; i < 120; i++) {
    const response = await fetch(`/audit/event/${id}?chapter=${chapter}`, { headers: readable });
    if (!response.ok) { tell(await problem(response)); return; }
    const trail = await response.json(), why = await said(trail);
    draw(trail, why);
    if (trail.valid !== "unknown") { live.textContent = why; refresh(); return; }
    await new Promise((r) => setTimeout(r, 500));
  }
}

place?.addEventListener("submit", async (e) => {
  e.preventDefault();
  const response = await fetch(place.action, { method: "POST", body: new URLSearchParams(new FormData(place)), headers: readable });
  const wrong = await problem(response);
  if (wrong) { tell(wrong); return; }
  const answer = await response.json();
  if (answer.status !== "committed") { tell(english || answer.status !== "rolled_back" ? answer.note ?? answer.detail : travel.dataset.rolledback); return; }
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
