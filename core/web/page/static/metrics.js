// Looks again every two seconds, until somebody stops it. The server draws.
const button = document.getElementById("freeze");
let still = false;
button.hidden = false;
button.addEventListener("click", () => {
  still = !still;
  button.setAttribute("aria-pressed", still);
});

async function look() {
  const old = document.getElementById("figures");
  if (still || document.hidden || old.contains(document.activeElement)) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("figures");
  const open = [...old.querySelectorAll("details")].map((d) => d.open);
  fresh.querySelectorAll("details").forEach((d, i) => { d.open = open[i]; });
  const scrolled = [...old.querySelectorAll(".scroll")].map((e) => e.scrollLeft);
  old.replaceWith(fresh);
  fresh.querySelectorAll(".scroll").forEach((e, i) => { e.scrollLeft = scrolled[i] ?? 0; });
}

setInterval(() => look().catch(() => {}), 2000);
