/* What every page but the panel needs: a new page begins at its top, with the focus on its heading, so that a screen
   reader reads it. Ctrl+Enter (or ⌘+Enter) leads on wherever the focus is: Streamlit's own shortcut is swallowed by an
   answer that was just clicked. The page states its language and direction; Streamlit's is always English. */
const root = document.documentElement;

function begin() {
  document.querySelector('[data-testid="stMain"]')?.scrollTo({ top: 0, behavior: "instant" });
  document.querySelector(".stMain h1")?.focus({ preventScroll: true });
}

function lead(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  const button = document.querySelector(".stMain [data-testid^=stBaseButton-primary]");
  if (!button) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!event.repeat && !button.disabled) button.click();
}

/* At the end nothing is left to be saved: what was chosen in this browser is forgotten; see panel/draft.js. */
function forget(place) {
  try {
    Object.keys(localStorage).filter((key) => key.startsWith(`draft-${place}-`)).forEach((key) => localStorage.removeItem(key));
  } catch {
    // A browser may forbid storage; then nothing is in it.
  }
}

export default function ({ data }) {
  Object.assign(root, { lang: data.language, dir: data.direction });
  if (!root.dataset.geKeys) {
    root.dataset.geKeys = "on";
    window.addEventListener("keydown", lead, true); // before Streamlit, or both would press the button
  }
  if (root.dataset.geView !== undefined && root.dataset.geView !== data.view) requestAnimationFrame(begin);
  root.dataset.geView = data.view;
  if (data.forget) forget(data.forget);
}
