/* What is not saved yet, and the time it took. component.py puts the scripts together, this one first. */

const IDLE = 30_000; // ms without a sign of life that still count as reading

/* How long a pair was on the screen, and how much of that the rater was present: the page seen and in focus, and
   a key, a finger or the mouse moved in the last 30 s. Nothing ticks: time is added when something happens. */
class Clock {
  constructor(seconds, active) {
    this.shown = 1000 * seconds;
    this.active = 1000 * active;
    this.last = this.touched = performance.now();
    this.present = Clock.seen();
    this.stopped = false;
  }

  static seen() {
    return document.visibilityState === "visible" && document.hasFocus();
  }

  tick() {
    const now = performance.now();
    if (!this.stopped) {
      this.shown += now - this.last;
      if (this.present) this.active += Math.max(0, Math.min(now, this.touched + IDLE) - this.last);
    }
    this.last = now;
    this.present = Clock.seen();
  }

  touch() {
    this.tick();
    this.touched = this.last;
  }

  stop(stopped) {
    this.touch();
    this.stopped = stopped;
  }

  get seconds() {
    return { seconds: this.shown / 1000, active: this.active / 1000 };
  }
}

const KEPT = 30 * 24 * 3600_000; // ms for which a draft is of use

/* What was chosen for a pair: kept by the browser until it is saved, so that a closed tab or a crash loses nothing.
   The key identifies the rater and the pair; no text of the pair is in it. */
class Draft {
  constructor(view) {
    this.key = Draft.key(view, view.pair);
    const before = recall(this.key) ?? {};
    this.choices = { ...view.chosen, ...before.choices };
    this.comment = before.comment ?? view.comment;
    this.problems = before.problems ?? view.problems;
    this.breaks = before.breaks ?? [];
    this.sent = before.sent ?? ""; // the press of Save that is not acknowledged yet
    this.clock = new Clock(before.seconds ?? 0, before.active ?? 0);
  }

  static key(view, pair) {
    return `draft-${view.place}-${pair}`;
  }

  /* Forget a draft that was saved unchanged, or skipped; one that was changed since is another. */
  static forget(view, pair, press) {
    const key = Draft.key(view, pair);
    if (press === "skip" || recall(key)?.sent === press) remember(key, null);
  }

  /* Forget old drafts whose rater did not come back. */
  static forgetOld() {
    const old = drafts().filter((key) => Date.now() - (recall(key)?.at ?? 0) > KEPT);
    old.forEach((key) => remember(key, null));
  }

  unanswered(criteria) {
    return criteria.flatMap(({ name }, index) => (this.choices[name] ? [] : [index]));
  }

  report(name, reported) {
    const rest = this.problems.filter((other) => other !== name);
    this.problems = reported ? [...rest, name] : rest;
  }

  store() {
    this.clock.tick();
    const { choices, comment, problems, breaks, sent, clock } = this;
    const at = Date.now();
    remember(this.key, { choices, comment, problems, breaks, sent, at, ...clock.seconds });
  }

  message(view) {
    this.clock.tick();
    const { choices, comment, problems, breaks, sent, clock } = this;
    return {
      pair: view.pair,
      press: sent,
      choices,
      comment: comment === view.comment ? null : comment,
      problems: `${problems}` === `${view.problems}` ? null : problems,
      breaks,
      ...clock.seconds,
    };
  }
}

function drafts() {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith("draft-"));
  } catch {
    return [];
  }
}

/* A browser may forbid storage, so that its very name throws, or have none left: then the page itself still holds what
   was chosen. */
function recall(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

function remember(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Not remembered, then.
  }
}
