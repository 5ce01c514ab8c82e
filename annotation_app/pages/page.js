/* What every page but the panel needs: a new page begins at its top, with the focus on its heading, so that a screen
   reader reads it. Ctrl+Enter (or ⌘+Enter) leads on wherever the focus is: Streamlit's own shortcut is swallowed by an
   answer that was just clicked. The page states its language and direction; Streamlit's is always English. */
const root = document.documentElement;

function begin() {
  document.querySelector('[data-testid="stMain"]')?.scrollTo({ top: 0, behavior: "instant" });
  document.querySelector(".stMain h1")?.focus({ preventScroll: true });
}

function lead(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) {
    // A rater who does something else in between has seen the page.
    if (!["Control", "Meta"].includes(event.key)) last = { at: -AGAIN };
    return;
  }
  const button = document.querySelector(".stMain [data-testid^=stBaseButton-primary]");
  if (!button) return;
  stop(event);
  if (!event.repeat && !button.disabled && !isRepeated(event, button)) button.click();
}

function stop(event) {
  event.preventDefault();
  event.stopImmediatePropagation();
}

const AGAIN = 500; // ms within which a second press at the same place is meant for what was there at the first
const NEAR = 10; // CSS pixels
const PRESS = ["pointerdown", "mousedown", "pointerup", "mouseup", "click"];

let last = { at: -AGAIN };
let dropped = false;

/* Whether a press repeats the last one at another thing that has come in its place: a double click must not answer a
   question of the next page, nor leave that page unread. */
function isRepeated({ timeStamp: at, clientX: x = 0, clientY: y = 0 }, target) {
  const before = last;
  last = { at, x, y, target, view: root.dataset.geView };
  const again = at - before.at < AGAIN && Math.hypot(x - before.x, y - before.y) < NEAR;
  return again && (target !== before.target || last.view !== before.view);
}

function press(event) {
  if (event.type === "pointerdown") dropped = isRepeated(event, event.target);
  // A click of detail 0 is made by a key or a script.
  if (dropped && (event.type !== "click" || event.detail)) stop(event);
}

/* At the end nothing is left to be saved: what was chosen in this browser is forgotten; see panel/draft.js. */
function forget(place) {
  try {
    Object.keys(localStorage).filter((key) => key.startsWith(`draft-${place}-`)).forEach((key) => localStorage.removeItem(key));
  } catch {
    // A browser may forbid storage; then nothing is in it.
  }
}

/* Where the connection is lost, Streamlit bars the page with a dialog about its server. Closed at once; the page says
   it in the study's words until it is connected again (style.css). The panel does so by itself. */
function closeDialog(words) {
  const close = document.querySelector("body > .stDialog button");
  if (!close || document.querySelector(".ge-page")) return;
  close.click();
  document.querySelector(".ge-away")?.remove();
  const notice = document.createElement("div");
  Object.assign(notice, { className: "ge-away ge-message ge-problem", role: "alert", textContent: words });
  document.querySelector(".stApp").append(notice);
}

export default function ({ data }) {
  Object.assign(root, { lang: data.language, dir: data.direction });
  if (!root.dataset.geKeys) {
    root.dataset.geKeys = "on";
    new MutationObserver(() => closeDialog(data.away)).observe(document.body, { childList: true });
    window.addEventListener("keydown", lead, true); // before Streamlit, or both would press the button
    PRESS.forEach((name) => window.addEventListener(name, press, true));
  }
  if (root.dataset.geView !== undefined && root.dataset.geView !== data.view) requestAnimationFrame(begin);
  root.dataset.geView = data.view;
  if (data.forget) forget(data.forget);
}
