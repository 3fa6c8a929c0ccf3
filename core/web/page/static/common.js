// What every page has: buttons that copy a command. Without JavaScript they stay
// hidden, and the command can be selected.
export function say(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}

document.addEventListener("click", async (e) => {
  const button = e.target.closest("button.copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code, pre");
  await navigator.clipboard.writeText(code.textContent.trim());
  button.textContent = document.body.dataset.copied;
  say(document.body.dataset.copied);
  setTimeout(() => { button.textContent = document.body.dataset.copy; }, 1500);
});

export function reveal(root = document) {
  for (const button of root.querySelectorAll("button.copy[hidden]")) {
    button.textContent = document.body.dataset.copy;
    button.hidden = false;
  }
}

reveal();
