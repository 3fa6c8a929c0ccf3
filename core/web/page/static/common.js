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

// Scripts want JSON, and where there is a problem its page, which is in the reader's
// language.
export const readable = { Accept: "application/json, text/html;q=0.5" };

export async function parsed(response) {
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

// problem is what the page of a problem says, in a line; "" where the answer is none.
export async function problem(response) {
  if (!response.headers.get("Content-Type")?.startsWith("text/html")) return "";
  const said = [...(await parsed(response)).querySelectorAll("[data-problem]")].map((e) => e.textContent.trim());
  return said.join(document.documentElement.lang === "en" ? ". " : "。");
}

export function reveal(root = document) {
  for (const button of root.querySelectorAll("button.copy[hidden]")) {
    button.textContent = document.body.dataset.copy;
    button.hidden = false;
  }
}

reveal();
