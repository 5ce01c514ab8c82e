/* The page's parts as elements. Texts are put in as text nodes and nothing else: nothing here makes HTML of a
   string. `panel` is what the parts call when something is pressed, and where they are found again. */

const LETTERS = ["A", "tie", "B"];

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
  panel.parts = { questions: [] };
  const sides = ["A", "B"].map((letter) => {
    return box(words, fill(words.side, { letter }), view[letter.toLowerCase()], "ge-side", letter);
  });
  const questions = criteria.map((criterion, index) => question(panel, criterion, index));
  const kind = criteria.length > 3 ? "ge-page ge-many" : "ge-page";
  return make("div", { class: kind, "data-keys": keys ? "on" : "off" },
    head(panel),
    box(words, words.prompt, view.prompt, "ge-prompt", ""),
    make("div", { class: "ge-sides" }, ...sides),
    make("div", { class: "ge-questions", role: "group", "aria-label": words.questions }, ...questions),
    remarks(panel),
    foot(panel),
    rest(panel),
    elsewhere(panel));
}

/* Where the rater is, how much is left, and what just happened. */
function head(panel) {
  const { view, keys } = panel;
  const { words } = view;
  const heading = make("h1", { tabindex: "-1" }, view.where);
  const done = make("div");
  done.style.width = `${view.total ? (100 * view.done) / view.total : 0}%`;
  const bar = make("div", {
    class: "ge-bar", role: "progressbar", "aria-label": view.where,
    "aria-valuemin": 0, "aria-valuemax": view.total, "aria-valuenow": view.done,
  }, done);
  const note = make("span", { class: "ge-note", role: "status" });
  Object.assign(panel.parts, { heading, note });
  const toggle = button("ge-quiet ge-keys", words.keys, () => panel.switchKeys(toggle), { "aria-pressed": `${keys}` });
  const extras = view.extras ? [
    button("ge-quiet", words.instructions, () => panel.go("instructions")),
    button("ge-quiet", words.break, () => panel.startBreak()),
  ] : [];
  return make("header", { class: "ge-head" }, heading, bar, note, toggle, ...extras);
}

function box(words, title, text, kind, letter) {
  const badge = letter ? [make("span", { class: "ge-badge", "aria-hidden": "true" }, letter)] : [];
  const shown = text || make("span", { class: "ge-empty" }, words.empty);
  // tabindex: a text that scrolls inside its box must be reachable by keyboard.
  return make("section", { class: `ge-box ${kind}`, "aria-label": title },
    make("h2", {}, ...badge, title),
    make("div", { class: "ge-text", dir: "auto", tabindex: "0" }, shown));
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
  let pressed = false;
  const inputs = LETTERS.map((letter, place) => make("input", {
    type: "radio", name: id, value: letter, "aria-keyshortcuts": place + 1,
    // Arrow keys make clicks too, of detail 0. The click comes before the change.
    onclick: (event) => { pressed = event.detail > 0; },
    onchange: () => {
      panel.choose(index, letter);
      // A press by mouse or finger moves the keys on; arrow keys go on within the answers.
      if (pressed) panel.turn(panel.unanswered()[0] ?? index);
    },
  }));
  const answers = inputs.map((input, place) => {
    input.checked = panel.draft.choices[criterion.name] === input.value;
    const key = make("kbd", { "aria-hidden": "true" }, place + 1);
    return make("label", { class: "ge-answer" }, input, make("span", {}, words[input.value]), key);
  });
  const group = make("div", {
    class: "ge-question", role: "radiogroup", "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-means`,
    onfocusin: () => panel.turn(index),
  },
  make("div", { class: "ge-words" }, make("h3", { id: `${id}-title` }, criterion.title), about, definition),
  make("div", { class: "ge-answers" }, ...answers));
  panel.parts.questions.push({ group, inputs, criterion });
  return group;
}

/* A comment and a report, folded until the rater opens them. */
function remarks(panel) {
  const { view, draft } = panel;
  const field = make("textarea", { id: "ge-comment", rows: 2, maxlength: 5000, dir: "auto", oninput: () => {
    draft.comment = field.value;
    panel.changed();
  } });
  field.value = draft.comment;
  const reports = Object.entries(view.reports).map(([name, words]) => make("label", {}, make("input", {
    type: "checkbox", checked: draft.problems.includes(name), onchange: (event) => {
      draft.report(name, event.target.checked);
      panel.changed();
    },
  }), words));
  const skip = view.skip ? [button("ge-plain", view.words.skip, () => panel.skip())] : [];
  panel.parts.remarks = make("div", { class: "ge-remarks", id: "ge-remarks", hidden: true },
    make("label", { for: "ge-comment" }, view.words.comment), field,
    make("fieldset", {}, make("legend", {}, view.words.report), ...reports), ...skip);
  return panel.parts.remarks;
}

function foot(panel) {
  const { view } = panel;
  const { words } = view;
  const back = button("ge-plain", words.back, () => panel.go("back"),
    { disabled: !view.back, "aria-keyshortcuts": "Backspace" }, "⌫");
  const latest = view.earlier ? [button("ge-plain", words.latest, () => panel.go("latest"))] : [];
  const remark = button("ge-quiet", "", () => panel.open(), { "aria-expanded": "false", "aria-controls": "ge-remarks" });
  const alert = make("div", { class: "ge-alert", role: "alert" });
  const save = button("ge-save", words.save, () => panel.save(), { "aria-keyshortcuts": "Enter Control+Enter" }, "⏎");
  Object.assign(panel.parts, { alert, remark, save });
  return make("footer", { class: "ge-foot" }, back, ...latest, ...(view.extras ? [remark] : []), alert, save);
}

/* A break covers the texts and stops the clock. */
function rest(panel) {
  const { words } = panel.view;
  const dialog = make("dialog", { class: "ge-rest", "aria-labelledby": "ge-rest", onclose: () => panel.endBreak() },
    make("h2", { id: "ge-rest" }, words.break_title),
    make("p", {}, words.break_lead),
    button("ge-save", words.break_end, () => dialog.close(), { autofocus: true }));
  panel.parts.dialog = dialog;
  return dialog;
}

/* Another tab has the study open: this one is covered until it is taken up again, as the server has it by then. */
function elsewhere(panel) {
  const { words } = panel.view;
  const dialog = make("dialog", { class: "ge-rest", "aria-labelledby": "ge-elsewhere", onclose: () => location.reload() },
    make("h2", { id: "ge-elsewhere" }, words.elsewhere_title),
    make("p", {}, words.elsewhere_lead),
    button("ge-save", words.elsewhere_end, () => dialog.close(), { autofocus: true }));
  panel.parts.elsewhere = dialog;
  return dialog;
}
