/* The page on which a pair is compared. Everything a rater does stays in the browser until Save sends it in one message.
   Keys work wherever the focus is, but for fields that are written in. Texts are put in as text nodes and nothing else. */

const IDLE = 30_000; // ms without a sign of life that still count as reading
const KEPT = 30 * 24 * 3600_000; // ms for which a draft is kept whose rater does not come back
const PATIENCE = 6_000; // ms without an answer of the server before the rater is informed
const TRIES = 3; // unanswered runs after which what was sent waits for another press
const PASSAGE = 40; // characters from which on a copy is one of a passage
const MOST = 999; // of what is counted on a pair
const FIELDS = "textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])";
const LETTERS = ["A", "tie", "B"];
const DIGITS = ["1", "2", "3"];
/* Attributes of other people's text: it is in no known language, no browser translates it, and none marks mistakes in it. */
const AS_IT_IS = { dir: "auto", lang: "", translate: "no", class: "notranslate", spellcheck: "false" };
/* Nor does a browser or an extension change what a rater writes. */
const AS_WRITTEN = {
  ...AS_IT_IS, autocomplete: "off", autocorrect: "off", writingsuggestions: "false", "data-gramm": "false",
};
let asked = null; // what the rater asked the server for, until it shows a pair

/* Loaded once, with the words, apart from the pairs: the pair's own script waits for it (rating.py). */
export default function ({ data }) {
  const panels = new WeakMap();
  globalThis.guardEval ??= Promise.withResolvers();
  globalThis.guardEval.resolve({
    show({ data: [view], parentElement, setTriggerValue }) {
      if (!panels.has(parentElement)) panels.set(parentElement, new Panel(parentElement));
      const panel = panels.get(parentElement);
      const visit = panel.show({ chosen: {}, comment: "", problems: [], base: "", ...data[0], ...view }, setTriggerValue);
      return () => panel.leave(visit);
    },
  });
}

/* A browser may forbid storage, so that its very name throws, or have none left: then the page still holds the choices. */
function withStorage(act) {
  try {
    return act(localStorage);
  } catch {
    return null;
  }
}

const recall = (key) => withStorage((storage) => JSON.parse(storage.getItem(key)));
const remember = (key, value) => withStorage((storage) => storage.setItem(key, JSON.stringify(value)));
const forget = (key) => withStorage((storage) => storage.removeItem(key));
const keyOf = (view, pair) => `draft-${view.drafts}-${pair}`;
const isSeenToEnd = ({ intersectionRatio }) => intersectionRatio >= 0.5;
const isSeen = () => document.visibilityState === "visible" && document.hasFocus();

/* What was chosen for a pair, kept by the browser until it is saved: a closed tab or a crash loses nothing. The key identifies
   the rater and the pair; no text of the pair is in it. `shown` is how long the pair was on the screen, and `active` how
   much of that the rater was present: the page seen and in focus, and a key, a finger or the mouse moved in the last 30 s.
   Nothing ticks: time is added when something happens.
   `base` says which stored answers the draft began with. Where others are stored by now, from another tab or device, those are
   shown; the draft becomes `older` and waits for the rater to take it back. */
class Draft {
  constructor(view) {
    this.key = keyOf(view, view.pair);
    const kept = recall(this.key) ?? { base: view.base };
    const isCurrent = kept.base === view.base || kept.base === null;
    const before = isCurrent ? kept : {};
    this.base = view.base;
    this.older = isCurrent ? kept.older : olderThan(view, kept);
    this.choices = { ...view.chosen, ...before.choices };
    this.comment = before.comment ?? view.comment;
    this.problems = before.problems ?? view.problems;
    this.conduct = { ...before.conduct }; // what was counted, see `watchConduct`
    this.ends = new Set(before.ends); // the texts whose end was on the screen
    this.sent = before.sent ?? ""; // the press of Save that is not acknowledged yet
    this.after = before.after ?? ""; // the press before it: what was changed since may replace its answers
    this.shown = 1000 * (before.seconds ?? 0);
    this.active = 1000 * (before.active ?? 0);
    this.last = this.touched = performance.now();
    this.present = isSeen();
  }

  /* Forget a draft that was saved unchanged, or skipped; one that was changed since is another. */
  static settle(view, pair, press) {
    const key = keyOf(view, pair);
    const draft = recall(key);
    if (press === "skip" || draft?.sent === press) forget(key);
    else if (draft?.after === press) remember(key, { ...draft, base: null }); // it goes on from what was saved
  }

  tick() {
    const now = performance.now();
    this.shown += now - this.last;
    if (this.present) this.active += Math.max(0, Math.min(now, this.touched + IDLE) - this.last);
    this.last = now;
    this.present = isSeen();
  }

  count(name) {
    this.conduct[name] = Math.min(MOST, (this.conduct[name] ?? 0) + 1);
  }

  touch() {
    this.tick();
    this.touched = this.last;
  }

  store() {
    this.tick();
    const { choices, comment, problems, base, older, sent, after, shown, active, conduct } = this;
    const measures = { at: Date.now(), seconds: shown / 1000, active: active / 1000, conduct };
    remember(this.key, { choices, comment, problems, base, older, ends: [...this.ends], sent, after, ...measures });
  }

  message(view) {
    this.tick();
    return {
      pair: view.pair,
      press: this.sent,
      base: this.base,
      after: this.after,
      choices: this.choices,
      comment: this.comment === view.comment ? null : this.comment,
      problems: `${this.problems}` === `${view.problems}` ? null : this.problems,
      ends: this.ends.size,
      conduct: this.conduct,
      seconds: this.shown / 1000,
      active: this.active / 1000,
    };
  }
}

/* Return what a draft holds that the stored answers do not; nothing if it holds the same. */
function olderThan({ chosen, comment, problems }, draft) {
  const parts = (answers) => JSON.stringify([Object.entries(answers.choices).sort(), answers.comment, answers.problems]);
  const older = { choices: draft.choices, comment: draft.comment, problems: draft.problems };
  return parts(older) === parts({ choices: chosen, comment, problems }) ? undefined : older;
}

/* Return which of 1 2 3 a key is, as 0 1 2, or -1. On French, Czech and other keyboards the keys of the top row write digits
   only with Shift: there the key itself counts, unless it writes another digit. */
function digitOf({ key, code, shiftKey }) {
  if (/^[0-9]$/.test(key)) return DIGITS.indexOf(key);
  return shiftKey ? -1 : DIGITS.findIndex((digit) => code === `Digit${digit}`);
}

class Panel {
  constructor(home) {
    this.home = home;
    this.visits = this.tries = 0;
    this.watches = [];
    this.view = this.draft = this.pending = this.listeners = null;
    this.at = 0; // the criterion that the keys answer
    this.keys = recall("ge-keys") ?? true;
    const isOld = (key) => key.startsWith("draft-") && !(Date.now() - recall(key)?.at < KEPT);
    (withStorage(Object.keys) ?? []).filter(isOld).forEach(forget);
  }

  /* The server's answer: another pair, or the same one and why. */
  show(view, send) {
    const content = JSON.stringify([view.drafts, view.pair, view.criteria, view.base]);
    const again = asked?.pair === view.pair && !view.problem && asked; // a server that was restarted has not heard it
    Object.assign(this, { view, send, busy: false, skipping: false });
    clearTimeout(this.waiting);
    this.listen();
    if (view.acknowledged) { // a press of Save is on disk
      Draft.settle(view, ...view.acknowledged);
      if (this.pending?.press === view.acknowledged[1]) this.pending = null;
    }
    if (this.content !== content || !this.root?.isConnected) this.begin();
    this.content = content;
    if (view.failed && view.failed === this.draft.sent) this.changed();
    if (view.failed && view.failed === this.pending?.press) this.pending = null;
    // What was sent before the connection broke, or the page was loaded again, is sent again.
    if (this.draft.sent) this.pending ??= this.draft.message(view);
    this.tries = this.pending ? this.tries + 1 : 0;
    if (this.pending && this.tries < TRIES) this.deliver();
    else this.announce(view.note || (view.earlier ? view.words.earlier : ""), view.problem);
    this.offerOlder();
    asked = null;
    if (again) this.ask(again.event, again.value, false);
    return ++this.visits;
  }

  begin() {
    this.draft = new Draft(this.view);
    this.copied = false;
    if (this.view.counts && navigator.webdriver) this.draft.conduct.driven = 1;
    this.root?.remove();
    this.root = page(this);
    this.home.append(this.root);
    this.root.addEventListener("ge-back", () => this.go("back")); // see page.js
    this.labelRemarks();
    this.measure();
    this.watchEnds();
    this.turn(this.unanswered()[0] ?? 0);
    this.parts.heading.focus({ preventScroll: true });
  }

  /* Note which texts were on the screen to their end, and not only behind the buttons; say of each box whether its text
     goes on below. */
  watchEnds() {
    const { draft, root, parts } = this;
    this.watches.forEach((watch) => watch.disconnect());
    const note = new IntersectionObserver((entries) => {
      entries.filter(isSeenToEnd).forEach(({ target }) => draft.ends.add(target.dataset.text));
    }, { root, rootMargin: `0px 0px -${parts.foot.offsetHeight}px`, threshold: 0.5 });
    this.watches = [note];
    root.querySelectorAll(".ge-end").forEach((end) => {
      const text = end.parentElement;
      const more = text.nextElementSibling;
      const tell = new IntersectionObserver((entries) => {
        more.hidden = isSeenToEnd(entries.at(-1));
      }, { root: text, threshold: 0.5 });
      tell.observe(end);
      note.observe(end);
      this.watches.push(tell);
    });
  }

  /* Tell panel.css how high the prompt is if it is shown whole. */
  measure() {
    const prompt = this.root.querySelector(".ge-prompt");
    prompt.style.removeProperty("--ge-whole");
    prompt.style.flexShrink = 0;
    const whole = prompt.offsetHeight;
    prompt.style.flexShrink = "";
    prompt.style.setProperty("--ge-whole", `${whole}px`);
  }

  /* Called when Streamlit takes the page away, and for a drawing that the next one overtook. */
  leave(visit) {
    if (visit !== this.visits) return;
    clearTimeout(this.waiting);
    // What was sent is in the draft already; stored again after it was forgotten, it would stay for ever.
    if (!this.draft.sent && !this.skipping) this.draft.store();
    this.listeners.abort();
    this.watches.forEach((watch) => watch.disconnect());
    this.listeners = this.view = asked = null;
    this.root.remove();
  }

  listen() {
    if (this.listeners) return;
    this.listeners = new AbortController();
    const on = (target, names, react, passive = true) => names.forEach((name) => {
      target.addEventListener(name, react, { signal: this.listeners.signal, passive, capture: true });
    });
    on(document, ["pointermove", "pointerdown", "keydown", "wheel", "touchmove", "scroll"], () => this.draft.touch());
    on(document, ["keydown"], (event) => this.press(event), false);
    on(window, ["focus", "blur"], () => this.draft.tick());
    on(window, ["resize"], () => this.measure());
    on(window, ["pagehide"], () => this.draft.store());
    on(document, ["visibilitychange"], () => this.draft.store());
    this.watchConduct(on);
  }

  /* Count copies of a passage after which the page is left, and events that a program made. Only numbers are kept, and only
     if the consent page says so. A screen reader, a voice control of the system and a browser's translation make no such
     events. */
  watchConduct(on) {
    const count = (name) => {
      if (this.view.counts) this.draft.count(name);
    };
    const leave = () => {
      if (!this.copied || isSeen()) return;
      this.copied = false;
      count("copies");
    };
    on(document, ["copy"], ({ target }) => {
      this.copied = !(target instanceof Element && target.matches(FIELDS)) && `${getSelection()}`.length >= PASSAGE;
    });
    on(window, ["blur"], leave);
    on(document, ["visibilitychange"], leave);
    on(document, ["click", "change", "keydown"], ({ isTrusted, target }) => {
      if (!isTrusted && this.root.contains(target)) count("untrusted");
    });
  }

  // Messages.

  announce(note, problem) {
    const { note: status, alert } = this.parts;
    status.textContent = alert.textContent = "";
    // A moment later than the page: a screen reader reads out what changes, not what is present. What the rater's own press
    // has written by then stays.
    setTimeout(() => {
      status.textContent ||= note;
      alert.textContent ||= problem;
    }, 30);
  }

  alert(text) {
    this.parts.alert.textContent = text;
  }

  /* Offer what was chosen here before other answers were stored. */
  offerOlder() {
    const { words } = this.view;
    const { alert } = this.parts;
    if (!this.draft.older) return;
    const take = () => {
      Object.assign(this.draft, this.draft.older, { older: undefined });
      this.draft.store();
      this.begin();
    };
    setTimeout(() => {
      alert.textContent ||= words.older;
      alert.append(" ", button("ge-plain", words.take_older, take));
    }, 60); // after `announce`
  }

  labelRemarks() {
    const { words } = this.view;
    const { comment, problems } = this.draft;
    this.parts.remark.textContent = comment.trim() || problems.length ? words.remarked : words.remark;
  }

  // What the rater does.

  unanswered() {
    return this.view.criteria.flatMap(({ name }, index) => (this.draft.choices[name] ? [] : [index]));
  }

  turn(index) {
    this.at = index;
    this.parts.questions.forEach(({ group }, other) => group.classList.toggle("ge-now", other === index));
  }

  focusQuestion(index) {
    this.turn(index);
    this.parts.questions[index].inputs[0].focus();
  }

  changed() {
    this.draft.after = this.draft.sent || this.draft.after;
    this.draft.sent = "";
    this.draft.store();
    this.labelRemarks();
  }

  choose(index, letter) {
    this.draft.choices[this.view.criteria[index].name] = letter;
    this.alert("");
    this.changed();
  }

  answer(letter) {
    const { inputs, criterion } = this.parts.questions[this.at];
    const { words } = this.view;
    inputs.find((input) => input.value === letter).checked = true;
    this.choose(this.at, letter);
    this.parts.note.textContent = fill(words.answered, { criterion: criterion.title, answer: words[letter] });
    const next = this.unanswered();
    if (next.length) this.focusQuestion(next.find((index) => index > this.at) ?? next[0]);
    else this.parts.save.focus({ preventScroll: true });
  }

  press(event) {
    const target = event.composedPath()[0];
    if (!this.root.isConnected || !(target instanceof Element)) return;
    const act = this.act(event, target);
    if (!act) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    // A key held down is one press, and what is pressed before the next pair appears is not meant for it.
    if (!event.repeat && !this.busy) act();
  }

  act(event, target) {
    const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
    if (altKey || event.isComposing) return null;
    if (key === "Enter" && (ctrlKey || metaKey) && !shiftKey) return () => this.save();
    if (ctrlKey || metaKey || target.matches(FIELDS)) return null;
    const digit = this.keys ? digitOf(event) : -1;
    if (digit >= 0) return () => this.answer(LETTERS[digit]);
    if (shiftKey) return null;
    if (key === "Backspace") return () => this.go("back");
    if (key === "Enter" && !target.closest("button, a")) return () => this.save();
    return null;
  }

  switchKeys(toggle) {
    this.keys = !this.keys;
    remember("ge-keys", this.keys);
    toggle.setAttribute("aria-pressed", `${this.keys}`);
    this.root.dataset.keys = this.keys ? "on" : "off";
  }

  open() {
    const { remarks: area, remark } = this.parts;
    area.hidden = !area.hidden;
    remark.setAttribute("aria-expanded", `${!area.hidden}`);
    if (!area.hidden) area.querySelector("textarea").focus();
  }

  save() {
    if (this.busy) return;
    const { words, criteria } = this.view;
    const missing = this.unanswered();
    if (missing.length) {
      const titles = new Intl.ListFormat(document.documentElement.lang || "en");
      this.focusQuestion(missing[0]);
      this.alert(fill(words.missing, { criteria: titles.format(missing.map((index) => criteria[index].title)) }));
      return;
    }
    this.draft.sent = `${Date.now()}-${Math.random()}`;
    this.draft.store();
    this.pending = this.draft.message(this.view);
    this.tries = 0;
    this.parts.note.textContent = "";
    this.alert("");
    this.deliver();
  }

  deliver() {
    this.post("submit", this.pending, () => {
      this.alert(this.view.words.slow);
      this.deliver();
    });
  }

  skip() {
    const { problems, comment } = this.draft;
    if (!problems.length) this.alert(this.view.words.skip_first);
    else this.ask("skip", { problems, comment });
  }

  go(to) {
    if (to === "back" && !(this.view.extras && this.view.done)) return;
    this.draft.store();
    this.ask("turn", { to });
  }

  /* Ask for something that the rater may press again where no answer comes. */
  ask(event, value, first = true) {
    if (this.busy) return;
    this.skipping = event === "skip";
    this.alert("");
    this.post(event, { pair: this.view.pair, ...value }, () => {
      this.busy = this.skipping = asked = false;
      this.alert(this.view.words.away);
    });
    asked = first && { pair: this.view.pair, event, value };
  }

  post(event, value, late) {
    this.busy = true;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(late, PATIENCE);
    this.send(event, value);
  }
}

// The page's parts as elements. `panel` is what they call when something is pressed, and where they are found again.

/* Make an element: attributes, `on…` listeners, children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/* Fill in a sentence's placeholders, once: a title may hold braces, or signs that `replace` would read. */
function fill(text, values) {
  return text.replace(/\{([a-z_]+)\}/g, (found, name) => values[name] ?? found);
}

function button(kind, label, onclick, more = {}, key = "") {
  const shown = key ? [make("kbd", { "aria-hidden": "true" }, key)] : [];
  return make("button", { type: "button", class: kind, onclick, ...more }, label, ...shown);
}

function page(panel) {
  const { view, keys } = panel;
  const { words, criteria } = view;
  panel.parts = {};
  const sides = ["A", "B"].map((letter) => box(words, fill(words.side, { letter }), view[letter.toLowerCase()], letter));
  panel.parts.questions = criteria.map((criterion, index) => question(panel, criterion, index));
  const groups = panel.parts.questions.map(({ group }) => group);
  return make("div", { class: criteria.length > 3 ? "ge-page ge-many" : "ge-page", "data-keys": keys ? "on" : "off" },
    head(panel),
    box(words, words.prompt, view.prompt, ""),
    make("div", { class: "ge-sides" }, ...sides),
    make("div", { class: "ge-questions", role: "group", "aria-label": words.questions }, ...groups),
    remarks(panel),
    foot(panel));
}

/* Where the rater is, how much is left, and what just happened. */
function head(panel) {
  const { view: { words, done, total, extras, where }, keys, parts } = panel;
  parts.heading = make("h1", { tabindex: "-1" }, fill(where, { number: done + 1, total }));
  parts.note = make("span", { class: "ge-note", role: "status" });
  const bar = make("progress", { class: "ge-bar", "aria-label": parts.heading.textContent, max: total || 1, value: done });
  const toggle = button("ge-quiet ge-keys", words.keys, () => panel.switchKeys(toggle), { "aria-pressed": `${keys}` });
  const instructions = extras ? [button("ge-quiet", words.instructions, () => panel.go("instructions"))] : [];
  return make("header", { class: "ge-head" }, parts.heading, bar, parts.note, toggle, ...instructions);
}

function box(words, title, text, letter) {
  const badge = letter ? [make("span", { class: "ge-badge", "aria-hidden": "true" }, letter)] : [];
  const shown = text || make("span", { class: "ge-empty" }, words.empty);
  const end = make("span", { class: "ge-end", "data-text": letter || "prompt" });
  // tabindex: a text that scrolls inside its box must be reachable by keyboard.
  return make("section", { class: `ge-box ${letter ? "ge-side" : "ge-prompt"}`, "aria-label": title },
    make("h2", {}, ...badge, title),
    make("div", { ...AS_IT_IS, class: `ge-text ${AS_IT_IS.class}`, tabindex: "0" }, shown, end),
    make("span", { class: "ge-more", "aria-hidden": "true", hidden: true }, words.more));
}

/* A criterion and its three answers: radio buttons, so that arrow keys and screen readers know them. */
function question(panel, criterion, index) {
  const { words } = panel.view;
  const id = `ge-q${index}`;
  const definition = make("p", { id: `${id}-means` }, criterion.definition);
  const label = fill(words.definition, { criterion: criterion.title });
  const about = button("ge-about", "?", () => {
    about.setAttribute("aria-expanded", `${definition.classList.toggle("ge-open")}`);
  }, { "aria-label": label, title: label, "aria-expanded": "false" });
  const inputs = LETTERS.map((letter, place) => make("input", {
    type: "radio", name: id, value: letter, "aria-keyshortcuts": place + 1,
    checked: panel.draft.choices[criterion.name] === letter,
    onchange: () => panel.choose(index, letter),
    // After a press the keys go on with what is not answered yet; the click that an arrow key makes has no detail.
    onclick: ({ detail }) => { if (detail) panel.turn(panel.unanswered().find((other) => other !== index) ?? index); },
  }));
  const answers = inputs.map((input, place) => make("label", { class: "ge-answer" },
    input, make("span", {}, words[input.value]), make("kbd", { "aria-hidden": "true" }, place + 1)));
  const named = { "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-means` };
  const group = make("div", { class: "ge-question", role: "radiogroup", ...named, onfocusin: () => panel.turn(index) },
    make("div", { class: "ge-words" }, make("h3", { id: `${id}-title` }, criterion.title), about, definition),
    make("div", { class: "ge-answers" }, ...answers));
  return { group, inputs, criterion };
}

/* A comment and a report, folded until the rater opens them. */
function remarks(panel) {
  const { view, draft } = panel;
  const field = make("textarea", { ...AS_WRITTEN, id: "ge-comment", rows: 2, maxlength: 5000, oninput: () => {
    draft.comment = field.value;
    panel.changed();
  } });
  field.value = draft.comment;
  const reports = Object.entries(view.reports).map(([name, words]) => make("label", {}, make("input", {
    type: "checkbox", checked: draft.problems.includes(name), onchange: (event) => {
      draft.problems = draft.problems.filter((other) => other !== name).concat(event.target.checked ? [name] : []);
      panel.changed();
    },
  }), words));
  const skip = view.extras && !view.earlier ? [button("ge-plain", view.words.skip, () => panel.skip())] : [];
  panel.parts.remarks = make("div", { class: "ge-remarks", id: "ge-remarks", hidden: true },
    make("label", { for: "ge-comment" }, view.words.comment), field,
    make("fieldset", {}, make("legend", {}, view.words.report), ...reports), ...skip);
  return panel.parts.remarks;
}

function foot(panel) {
  const { view: { words, done, earlier, extras }, parts } = panel;
  const back = { disabled: !extras || !done, "aria-keyshortcuts": "Backspace" };
  const previous = button("ge-plain", words.back, () => panel.go("back"), back, "⌫");
  const latest = earlier ? [button("ge-plain", words.latest, () => panel.go("latest"))] : [];
  parts.remark = button("ge-quiet", "", () => panel.open(), { "aria-expanded": "false", "aria-controls": "ge-remarks" });
  parts.alert = make("div", { class: "ge-alert", role: "alert" });
  parts.save = button("ge-save", words.save, () => panel.save(), { "aria-keyshortcuts": "Enter Control+Enter" }, "⏎");
  const remark = extras ? [parts.remark] : [];
  parts.foot = make("footer", { class: "ge-foot" }, previous, ...latest, ...remark, parts.alert, parts.save);
  return parts.foot;
}
