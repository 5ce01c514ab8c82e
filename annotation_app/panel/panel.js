/* The page on which a pair is compared.

Everything a rater does stays in the browser until Save sends it in one message. Keys work wherever the focus
is, but for fields that are written in. */

const PATIENCE = 6_000; // ms without an answer of the server before the rater is informed
const TRIES = 3; // unanswered runs after which what was sent waits for another press
const FIELDS = "textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])";

/* Loaded once, with the words, apart from the pairs: pair.js waits for it. */
export default function ({ data }) {
  [Panel.constants] = data;
  globalThis.guardEval ??= Promise.withResolvers();
  globalThis.guardEval.resolve(Panel);
}

class Panel {
  constructor(home) {
    this.home = home;
    this.visits = this.tries = 0;
    this.view = this.draft = this.pending = this.listeners = null;
    this.tabs = null;
    this.at = 0; // the criterion that the keys answer
    this.keys = recall("ge-keys") ?? true;
    Draft.forgetOld();
  }

  /* The server's answer: another pair, or the same one and why. */
  show(view, send) {
    const before = this.view;
    Object.assign(this, { view, send, busy: false, skipping: false });
    clearTimeout(this.waiting);
    clearTimeout(this.soon);
    this.listen();
    if (view.acknowledged) this.settle(...view.acknowledged);
    if (before?.pair !== view.pair || before.place !== view.place || !this.root?.isConnected) this.begin();
    if (view.failed && view.failed === this.draft.sent) this.changed();
    if (view.failed && view.failed === this.pending?.press) this.pending = null;
    // What was sent before the connection broke, or the page was loaded again, is sent again.
    if (this.draft.sent) this.pending ??= this.draft.message(view);
    this.tries = this.pending ? this.tries + 1 : 0;
    if (this.pending && this.tries < TRIES) this.deliver();
    else this.announce(view.note || (view.earlier ? view.words.earlier : ""), view.problem);
    return ++this.visits;
  }

  /* A press of Save is on disk. */
  settle(pair, press) {
    Draft.forget(this.view, pair, press);
    if (this.pending?.press === press) this.pending = null;
  }

  begin() {
    this.openHere();
    this.draft = new Draft(this.view);
    this.root?.remove();
    this.root = page(this);
    this.home.append(this.root);
    this.labelRemarks();
    // A page of the server's that comes next learns that there was another one before it; see pages/page.js.
    document.documentElement.dataset.geView = "pair";
    Object.assign(document.documentElement, { lang: this.view.language, dir: this.view.direction });
    this.turn(this.unanswered()[0] ?? 0);
    this.parts.heading.focus({ preventScroll: true });
  }

  /* Cover the other tabs in which this rater has a pair open: the newest one goes on. */
  openHere() {
    if (this.tabs?.name === this.view.place) return;
    this.tabs?.close();
    try {
      this.tabs = new BroadcastChannel(this.view.place);
    } catch {
      return; // where storage is forbidden, tabs may not speak to each other either
    }
    this.tabs.onmessage = () => this.cover();
    this.tabs.postMessage("open");
  }

  cover() {
    if (!this.view) return;
    this.draft.store();
    // What is not acknowledged yet is in the draft, and the other tab sends it.
    clearTimeout(this.waiting);
    this.pending = null;
    this.draft.clock.stop(true);
    if (this.parts.dialog.open) this.parts.dialog.close();
    if (!this.parts.elsewhere.open) this.parts.elsewhere.showModal();
  }

  /* Called when Streamlit takes the page away, and for a drawing that the next one overtook. */
  leave(visit) {
    if (visit !== this.visits) return;
    clearTimeout(this.waiting);
    clearTimeout(this.soon);
    // What was sent is in the draft already; stored again after it was forgotten, it would stay for ever.
    if (!this.draft.sent && !this.skipping) this.draft.store();
    this.listeners.abort();
    this.listeners = this.view = null;
    this.tabs?.close();
    this.tabs = null;
    this.root.remove();
  }

  listen() {
    if (this.listeners) return;
    this.listeners = new AbortController();
    const { signal } = this.listeners;
    const on = (target, names, react, passive = true) => names.forEach((name) => {
      target.addEventListener(name, react, { signal, passive, capture: true });
    });
    on(document, ["pointermove", "pointerdown", "keydown", "wheel", "touchmove", "scroll"], () => this.draft.clock.touch());
    on(document, ["keydown"], (event) => this.press(event), false);
    on(window, ["focus", "blur"], () => this.draft.clock.tick());
    on(window, ["pagehide"], () => this.draft.store());
    const dialogs = new MutationObserver(() => this.closeDialog());
    dialogs.observe(document.body, { childList: true });
    signal.addEventListener("abort", () => dialogs.disconnect());
    on(document, ["visibilitychange"], () => this.draft.store());
  }

  // Messages.

  /* Where the connection is lost, Streamlit bars the page with a dialog about its server. Closed at once; the
     page says it in its own words, and goes on. */
  closeDialog() {
    const close = document.querySelector("body > .stDialog button");
    if (!close) return;
    close.click();
    this.parts.alert.textContent = this.pending ? this.view.words.slow : this.view.words.away;
  }

  announce(note, problem) {
    const { note: status, alert } = this.parts;
    status.textContent = alert.textContent = "";
    // A moment later than the page: a screen reader reads out what changes, not what is present. What the rater's
    // own press has written by then stays.
    setTimeout(() => {
      status.textContent ||= note;
      alert.textContent ||= problem;
    }, 30);
  }

  labelRemarks() {
    const { words } = this.view;
    const { comment, problems } = this.draft;
    this.parts.remark.textContent = comment.trim() || problems.length ? words.remarked : words.remark;
  }

  // What the rater does.

  unanswered() {
    return this.draft.unanswered(this.view.criteria);
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
    this.draft.sent = "";
    this.draft.store();
    this.labelRemarks();
  }

  choose(index, letter) {
    this.draft.choices[this.view.criteria[index].name] = letter;
    this.parts.alert.textContent = "";
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
    if (!this.root.isConnected || this.root.querySelector("dialog[open]") || !(target instanceof Element)) return;
    const act = this.act(event, target);
    if (!act) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    // A key held down is one press, and what is pressed before the next pair appears is not meant for it.
    if (!event.repeat && !this.busy) act();
  }

  act({ key, ctrlKey, metaKey, altKey, shiftKey }, target) {
    if (altKey || shiftKey) return null;
    if (key === "Enter" && (ctrlKey || metaKey)) return () => this.save();
    if (ctrlKey || metaKey || target.matches(FIELDS)) return null;
    if (this.keys && ["1", "2", "3"].includes(key)) return () => this.answer(LETTERS[key - 1]);
    if (key === "Backspace") return () => this.view.back && this.go("back");
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

  startBreak() {
    this.breakStart = performance.now();
    this.draft.clock.stop(true);
    this.parts.dialog.showModal();
  }

  endBreak() {
    this.draft.breaks.push((performance.now() - this.breakStart) / 1000);
    this.draft.clock.stop(false);
    this.draft.store();
  }

  // What is sent.

  save() {
    if (this.busy) return;
    const { words, criteria } = this.view;
    const missing = this.unanswered();
    if (missing.length) {
      const titles = new Intl.ListFormat(document.documentElement.lang || "en");
      this.focusQuestion(missing[0]);
      const list = titles.format(missing.map((index) => criteria[index].title));
      this.parts.alert.textContent = fill(words.missing, { criteria: list });
      return;
    }
    this.draft.sent = `${Date.now()}-${Math.random()}`;
    this.draft.store();
    this.pending = this.draft.message(this.view);
    this.tries = 0;
    this.parts.alert.textContent = "";
    this.deliver();
  }

  deliver() {
    const { words } = this.view;
    this.soon = setTimeout(() => { this.parts.note.textContent = words.saving; }, 400);
    this.post("submit", this.pending, () => {
      this.parts.alert.textContent = words.slow;
      this.deliver();
    });
  }

  skip() {
    if (this.busy) return;
    const { problems, comment } = this.draft;
    if (!problems.length) {
      this.parts.alert.textContent = this.view.words.skip_first;
      return;
    }
    this.skipping = true;
    this.parts.alert.textContent = "";
    this.post("skip", { pair: this.view.pair, problems, comment }, () => {
      this.busy = this.skipping = false;
      this.parts.alert.textContent = this.view.words.away;
    });
  }

  go(to) {
    if (this.busy) return;
    this.draft.store();
    this.post("turn", { pair: this.view.pair, to }, () => {
      this.busy = false;
      this.parts.alert.textContent = this.view.words.away;
    });
  }

  post(event, value, late) {
    this.busy = true;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(late, PATIENCE);
    this.send(event, value);
  }
}
