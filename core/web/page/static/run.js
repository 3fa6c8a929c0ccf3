// Asks for a run, follows it, and puts the verdict into the page. The server writes
// the verdict; this only fetches it. Without this file the form leads to the run's page.
import { parsed, problem, readable } from "./common.js";

const form = document.getElementById("experiment");
const live = document.getElementById("live");
const own = /^\/(runs|r)\//.test(location.pathname);

function say(text) { if (live) live.textContent = text; }

// values are the form's, without what is left empty.
function values() {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== "") query.set(name, value);
  if (!query.has("predict")) query.delete("predict_what"); // which figure, of a number that is not there
  return query;
}

// The commands follow the form.
function rewrite() {
  const q = values();
  const [curl, cli] = form.querySelectorAll(".commands .command code");
  curl.textContent = `curl -s -X POST "${location.origin}/runs?${q}"`;
  let line = `go run ./chapters run ${q.get("chapter")}`;
  for (const name of ["variant", "bus", "fault", "orders", "seed", "outage", "predict", "predict_what"]) if (q.has(name)) line += ` --${name.replace("_", "-")} ${q.get(name)}`;
  cli.textContent = line;
  const link = new URLSearchParams({ ch: q.get("chapter") });
  for (const [from, to] of [["variant", "variant"], ["bus", "bus"], ["fault", "fault"], ["orders", "n"], ["seed", "seed"], ["outage", "outage"]]) if (q.has(from)) link.set(to, q.get(from));
  document.getElementById("permalink").href = "/play?" + link;
}

// A fault that does not exist on the chosen bus cannot be chosen; the one that takes its
// place is the server's choice, too.
function restrict() {
  const bus = form.elements.bus.value;
  const options = [...form.elements.fault.options];
  for (const o of options) o.disabled = o.dataset.except.split(" ").includes(bus);
  if (form.elements.fault.selectedOptions[0]?.disabled) (options.find((o) => !o.disabled && o.value === "crash-after-commit") ?? options.find((o) => !o.disabled)).selected = true;
}

// The length of an outage is asked for where the fault is one.
function lasting() {
  const lasts = "lasts" in (form.elements.fault.selectedOptions[0]?.dataset ?? {});
  document.getElementById("outage-field").hidden = form.elements.outage.disabled = !lasts;
}

// show puts the server's rendering of a run into the page.
async function show(id) {
  const here = own ? location.pathname : location.pathname.replace(/^\/play$/, "/chapters/" + form.elements.chapter.value);
  const address = own ? here : here + "?" + new URLSearchParams({ run: id });
  const page = await parsed(await fetch(address, { headers: { Accept: "text/html" } }));
  const verdict = page.getElementById("verdict");
  const place = document.getElementById("verdict") ?? document.getElementById("result").appendChild(document.createElement("div"));
  place.replaceWith(verdict);
  for (const b of verdict.querySelectorAll("button.copy")) b.hidden = false; // their label is there
  if (!own) history.replaceState(null, "", address);
  return verdict;
}

// follow reads the progress until the run is over. EventSource resumes by itself
// after a lost connection, with the number of the last event it has seen.
function follow(id) {
  const events = new EventSource(`/runs/${id}/events`);
  const update = (e) => {
    const p = JSON.parse(e.data);
    const box = document.getElementById("verdict");
    const bar = box?.querySelector("progress");
    if (bar) { bar.max = p.total; bar.value = p.done; }
    const count = box?.querySelector(".count");
    if (count) count.textContent = `${p.done}/${p.total}`;
    const stage = box?.querySelector(".stage");
    if (stage) stage.textContent = box.dataset[p.stage] ?? p.stage;
  };
  for (const stage of ["queued", "preparing", "running", "waiting", "judging"]) events.addEventListener(stage, update);
  const over = async () => {
    events.close();
    if (own) return location.reload(); // there is more on this page than the verdict
    const at = document.activeElement;
    const here = at === document.body || form?.contains(at) || document.getElementById("verdict")?.contains(at);
    const verdict = await show(id);
    const rest = document.getElementById("rest");
    if (rest) rest.open = true;
    const title = document.getElementById("verdict-title");
    say(title.textContent + ". " + (verdict.querySelector(".outcomes")?.textContent ?? ""));
    if (here) { // a reader who is elsewhere stays there
      title.focus({ preventScroll: true });
      verdict.scrollIntoView({ block: "nearest" });
    }
    free();
  };
  for (const end of ["done", "failed"]) events.addEventListener(end, over);
  // Closed by the answer itself: the progress is not remembered any more, the run is.
  events.onerror = () => { if (events.readyState === EventSource.CLOSED) over().catch(free); };
}

function free() { for (const b of form?.querySelectorAll("button") ?? []) b.disabled = false; }

async function ask(e) {
  e.preventDefault();
  if (e.submitter?.id === "unsure") form.elements.predict.value = "";
  if (e.submitter?.getAttribute("formmethod") === "get") return form.submit();
  const body = values();
  for (const b of form.querySelectorAll("button")) b.disabled = true;
  let response, answer;
  try {
    response = await fetch("/runs", { method: "POST", body, headers: readable });
    answer = response.ok ? await response.json() : await problem(response);
  } catch {
    return form.submit(); // the browser says what is wrong with the connection
  }
  if (!response.ok) {
    free();
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = answer;
    document.getElementById("result").replaceChildren(note);
    return say(note.textContent);
  }
  const verdict = await show(answer.id);
  verdict.scrollIntoView({ block: "nearest" });
  follow(answer.id);
}

if (form) {
  form.addEventListener("submit", ask);
  form.addEventListener("input", () => {
    restrict();
    lasting();
    rewrite();
    document.getElementById("fault-what").textContent = form.elements.fault.selectedOptions[0].dataset.what;
  });
}
const under = document.getElementById("verdict");
if (under && !["done", "failed"].includes(under.dataset.state)) follow(under.dataset.run);
