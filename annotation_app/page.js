/* What every page needs. A new page begins at its top, with the focus on its heading, so that a screen reader reads it.
   Ctrl+Enter (or ⌘+Enter) leads on wherever the focus is: Streamlit's own shortcut is swallowed by an answer that was
   just clicked. The page states its language and direction; Streamlit's is always English. */
const root = document.documentElement;
let page = { view: null, address: "" };

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

/* The browser's Back does not leave the study: where a pair is shown it leads to the pair before. An entry that is made
   before the first press would be skipped by the browser. */
function hold() {
  if (!history.state?.held) history.pushState({ held: true }, "", page.address);
}

function goBack(event) {
  event.stopImmediatePropagation();
  history.pushState({ held: true }, "", page.address);
  document.querySelector(".ge-page")?.dispatchEvent(new Event("ge-back"));
}

/* Where the connection is lost, page.css shows this; Streamlit's dialog, which bars the page, is closed at once. When it
   is back, the whole page runs: a server that was restarted takes nothing from a panel that it has not drawn. */
function addNotice() {
  const close = () => document.querySelector("body > .stDialog button")?.click();
  new MutationObserver(close).observe(document.body, { childList: true });
  const said = { className: "ge-away ge-message ge-problem", role: "alert", textContent: page.away };
  const app = document.querySelector(".stApp");
  app.append(Object.assign(document.createElement("div"), said));
  const wake = () => { if (app.dataset.testConnectionState === "CONNECTED") page.wake(); };
  new MutationObserver(wake).observe(app, { attributeFilter: ["data-test-connection-state"] });
}

/* Forget the draft of a press that is stored: on a page without the panel nobody else does. */
function settle({ drafts, acknowledged }) {
  const [pair, press] = acknowledged;
  const key = `draft-${drafts}-${pair}`;
  try {
    if (JSON.parse(localStorage.getItem(key))?.sent === press) localStorage.removeItem(key);
  } catch {
    // A browser may forbid storage.
  }
}

export default function ({ data, setTriggerValue }) {
  const before = page.view;
  page = { ...data, address: location.href, wake: () => setTriggerValue("wake", true) };
  document.getElementById("ge-start")?.remove(); // see shell.html
  if (data.acknowledged) settle(data);
  if (before === null && !root.dataset.geReady) {
    root.dataset.geReady = "yes";
    addNotice();
    window.addEventListener("keydown", lead, true); // before Streamlit, or both would press the button
    ["pointerdown", "keydown"].forEach((name) => window.addEventListener(name, hold, true));
    window.addEventListener("popstate", goBack, true);
  }
  if (before !== null && before !== data.view && data.view !== "pair") requestAnimationFrame(begin);
}
