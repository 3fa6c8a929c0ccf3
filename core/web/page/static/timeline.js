// A timeline can be stepped through: with the arrow keys, Home and End while it has the
// focus, or with its buttons. Without JavaScript all of it is shown. Nothing moves by itself.
function stepper(figure) {
  const steps = [...figure.querySelectorAll(".tl-step")];
  const rows = [...figure.querySelectorAll("tr[data-step]")];
  const scroll = figure.querySelector(".tl-scroll");
  const say = figure.querySelector(".tl-say");
  let now = 0; // 0: all of it
  function go(n) {
    now = Math.max(0, Math.min(steps.length, n));
    steps.forEach((s, i) => {
      s.classList.toggle("is-now", i + 1 === now);
      s.classList.toggle("is-later", now > 0 && i + 1 > now);
    });
    rows.forEach((r, i) => r.classList.toggle("is-now", i + 1 === now));
    figure.classList.toggle("is-stepping", now > 0);
    say.textContent = now ? `${now}/${steps.length} · ${[...rows[now - 1].cells].map((c) => (c.querySelector("span") ?? c).textContent).join(" · ")}` : "";
    if (!now) return;
    const box = steps[now - 1].getBoundingClientRect(), view = scroll.getBoundingClientRect();
    scroll.scrollLeft += box.left - view.left - view.width / 2;
  }
  const moves = { first: () => go(1), back: () => go(now > 1 ? now - 1 : 1), forward: () => go(now + 1), all: () => go(0) };
  const keys = { ArrowRight: "forward", ArrowDown: "forward", ArrowLeft: "back", ArrowUp: "back", Home: "first", End: "all", Escape: "all" };
  scroll.addEventListener("keydown", (e) => {
    if (!keys[e.key] || e.altKey || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    moves[keys[e.key]]();
  });
  for (const button of figure.querySelectorAll("[data-go]")) button.addEventListener("click", () => moves[button.dataset.go]());
  steps.forEach((s, i) => s.addEventListener("click", () => go(i + 1)));
  figure.querySelector(".tl-controls").hidden = false;
}

export function timelines(root = document) {
  for (const figure of root.querySelectorAll("figure.timeline:not([data-ready])")) {
    figure.dataset.ready = "";
    stepper(figure);
  }
}

timelines();
