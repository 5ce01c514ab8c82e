"use strict";
(() => {
  const index = JSON.parse(document.getElementById("index").textContent);
  const parts = [...document.querySelectorAll("script.part")];
  const { rows, pairs } = index;
  const byId = (id) => document.getElementById(id);
  const list = byId("list"), detail = byId("detail"), find = byId("find");
  const STEP = 150;  // rows that are made at a time
  const filters = ["judge", "criterion", "verdict", "flip", "people", "failure", "find"].map(byId);
  const unpacked = new Map();
  let shown = [], made = 0, chosen = -1, opening = 0;

  const element = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null));
    return node;
  };

  // What a row says.

  const methods = (row) => pairs[row.p].m?.map((place) => index.methods[place]);
  const named = (row, mark) =>
    mark === "t" ? "tie" : mark === "-" || mark === undefined ? "–" : `Text ${mark}` + (methods(row) ? ` (${methods(row)[mark - 1]})` : "");
  const letter = (order, mark) => (mark === "t" ? "tie" : mark === order.a ? "A" : "B");
  const mark = (order, criterion) => order.v[criterion] ?? "-";
  const given = (order, criterion) => mark(order, criterion) !== "-";
  const judged = (row, criterion, first) => row.o.filter((order) => order.a === first && given(order, criterion));
  const both = (row, criterion) => judged(row, criterion, "1").length > 0 && judged(row, criterion, "2").length > 0;
  const changes = (row, criterion) => judged(row, criterion, "1").some((one) =>
    judged(row, criterion, "2").some((two) => mark(one, criterion) !== mark(two, criterion)));
  const people = (row, criterion) => pairs[row.p].h[criterion];
  const differs = (row, criterion) =>
    people(row, criterion) !== undefined && row.o.some((order) => given(order, criterion) && mark(order, criterion) !== people(row, criterion));
  const judgedByPeople = (row, criterion) =>
    people(row, criterion) !== undefined && row.o.some((order) => given(order, criterion));

  // Filters.

  const every = index.criteria.map((_, place) => place);
  const tests = {
    judge: (row, value) => row.j === Number(value),
    verdict: (row, value, criteria) =>
      criteria.some((criterion) => row.o.some((order) => {
        const found = mark(order, criterion);
        if (found === "-") return false;
        if (value.startsWith("m")) return found !== "t" && pairs[row.p].m[found - 1] === Number(value.slice(1));
        return value.length > 1 ? found === value[1] : letter(order, found)[0] === value;
      })),
    flip: (row, value, criteria) =>
      value === "flip" ? criteria.some((each) => changes(row, each))
      : value === "one" ? new Set(row.o.map((order) => order.a)).size < 2
      : criteria.some((each) => both(row, each)) && !criteria.some((each) => changes(row, each)),
    people: (row, value, criteria) =>
      value === "differ" ? criteria.some((each) => differs(row, each))
      : value === "agree" ? criteria.some((each) => judgedByPeople(row, each)) && !criteria.some((each) => differs(row, each))
      : !criteria.some((each) => people(row, each) !== undefined),
    failure: (row, value) =>
      value === "some" ? row.o.some((order) => order.f >= 0)
      : value === "none" ? row.o.every((order) => order.f < 0)
      : row.o.some((order) => order.f === Number(value)),
    find: (row, value) => {
      const pair = pairs[row.p];
      return `${pair.id}\n${pair.q}\n${pair.d}\n${pair.x}`.toLowerCase().includes(value.toLowerCase());
    },
  };

  const filter = () => {
    const wanted = filters.filter((each) => each.value !== "" && each.id in tests);
    const criterion = byId("criterion").value;
    const criteria = criterion === "" ? every : [Number(criterion)];
    for (const each of filters) each.classList.toggle("on", each.value !== "");
    const before = shown[chosen];
    shown = [];
    rows.forEach((row, place) => {
      if (wanted.every((each) => tests[each.id](row, each.value, criteria))) shown.push(place);
    });
    made = 0;
    list.replaceChildren();
    more();
    const exchanges = shown.reduce((sum, place) => sum + rows[place].o.length, 0);
    const all = rows.reduce((sum, row) => sum + row.o.length, 0);
    const paired = shown.filter((place) => criteria.some((each) => both(rows[place], each)));
    const changed = paired.filter((place) => criteria.some((each) => changes(rows[place], each)));
    const failed = shown.filter((place) => rows[place].o.some((order) => order.f >= 0));
    byId("counts").textContent = [
      `${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} comparisons, ${exchanges.toLocaleString("en")} of ${all.toLocaleString("en")} exchanges`,
      paired.length ? `the order changes a verdict in ${changed.length} of ${paired.length}` : null,
      failed.length ? `${failed.length} with a failure` : null,
    ].filter(Boolean).join(" · ");
    const again = shown.indexOf(before);
    chosen = -1;
    if (shown.length) choose(Math.max(0, again), false);
    else {
      opening += 1;  // what is still being unpacked comes too late
      detail.replaceChildren();
      list.append(element("li", { class: "empty", role: "presentation" }, "Nothing is like that."));
    }
  };

  // The list.

  const strip = (row, order) => {
    const verdict = index.criteria.map(([, title], place) => `${title}: ${named(row, mark(order, place))}`).join(", ");
    const node = element("span", { class: "strip", role: "img", "aria-label": verdict, title: verdict });
    every.forEach((place) => node.append(element("i", { class: `m${mark(order, place).replace("-", "0")}` })));
    return node;
  };

  const item = (place) => {
    const row = rows[shown[place]], pair = pairs[row.p];
    const of = element("div", { class: "of" }, element("bdi", {}, index.judges[row.j] + (row.s ? `, sample ${row.s + 1}` : "")));
    row.o.forEach((order) => of.append(order.f >= 0 ? element("span", { class: "flag" }, index.kinds[order.f]) : strip(row, order)));
    if (every.some((each) => changes(row, each))) of.append(element("span", { class: "flag" }, "order"));
    if (every.some((each) => differs(row, each))) of.append(element("span", { class: "flag" }, "≠ people"));
    return element("li", { role: "option", id: `row-${place}`, "aria-selected": "false", "data-place": place },
      element("div", { class: "begin", dir: "auto" }, pair.x || pair.id), of);
  };

  const more = (until = made + STEP) => {
    const nodes = [];
    for (; made < Math.min(until, shown.length); made += 1) nodes.push(item(made));
    list.append(...nodes);
  };

  const choose = (place, scroll = true) => {
    if (place < 0 || place >= shown.length) return;
    if (place >= made) more(place + STEP);
    list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    chosen = place;
    const node = byId(`row-${place}`);
    node.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", node.id);
    if (scroll) node.scrollIntoView({ block: "nearest" });
    open(shown[place]);
  };

  // One comparison.

  const unpack = (number) => {
    if (!unpacked.has(number)) {
      const bytes = Uint8Array.from(atob(parts[number].textContent), (each) => each.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      unpacked.set(number, new Response(stream).json());
    }
    return unpacked.get(number);
  };

  const open = async (place) => {
    const turn = ++opening;
    if (typeof DecompressionStream === "undefined") {
      detail.replaceChildren(element("p", { class: "warning" }, "This browser cannot unpack the exchanges; a newer one can."));
      return;
    }
    const held = (await unpack(Math.floor(place / index.part)))[place % index.part];
    if (turn !== opening) return;
    detail.replaceChildren(...comparison(rows[place], held));
    detail.scrollTop = 0;
    history.replaceState(null, "", `#${place}`);
  };

  const words = (text, kind = "div", name = "words") => element(kind, { class: name, dir: "auto" }, text);

  const comparison = (row, held) => {
    const pair = pairs[row.p];
    const sides = element("div", { class: "sides" });
    held.texts.forEach((text, place) => {
      sides.append(element("section", { class: `side ${place ? "second" : "first"}` },
        element("h4", {}, `Text ${place + 1}`, methods(row) ? element("bdi", {}, ` by ${methods(row)[place]}`) : null),
        words(text, "div", "words text")));
    });
    const orders = element("div", { class: "sides" });
    row.o.forEach((order, place) => orders.append(exchange(row, order, held.orders[place])));
    return [
      element("h2", {}, element("bdi", {}, index.judges[row.j]), row.s ? `, sample ${row.s + 1}` : ""),
      element("p", { class: "quiet" }, element("bdi", {}, `${pair.d}, prompt ${pair.q}`), ` · pair ${pair.id}`),
      words(held.prompt, "div", "prompt words"),
      sides,
      element("h3", {}, "Verdict"),
      verdicts(row, held),
      orders,
    ];
  };

  const verdicts = (row, held) => {
    const heads = row.o.map((order) => `Text ${order.a} as A`);
    const anyone = Object.keys(held.people).length > 0;
    const head = element("tr", {}, element("th", { scope: "col" }, "Criterion"), ...heads.map((each) => element("th", { scope: "col" }, each)),
      anyone ? element("th", { scope: "col" }, "People") : null, element("td"));
    const body = element("tbody");
    index.criteria.forEach(([name, title], place) => {
      const counts = held.people[name];
      if (!counts && !row.o.some((order) => given(order, place))) return;
      const line = element("tr", {}, element("th", { scope: "row" }, title));
      row.o.forEach((order) => {
        const found = mark(order, place);
        line.append(element("td", {}, found === "-" ? null : element("i", { class: `m${found}` }), named(row, found),
          element("span", { class: "quiet" }, found === "-" || found === "t" ? "" : ` as ${letter(order, found)}`)));
      });
      if (anyone) line.append(element("td", {}, counts ? Object.entries(counts).map(([side, count]) => `${count} × ${side === "tie" ? "tie" : `Text ${side}`}`).join(", ") : "–"));
      const flags = element("td");
      if (changes(row, place)) flags.append(element("span", { class: "flag" }, "changes with the order"));
      if (differs(row, place)) flags.append(" ", element("span", { class: "flag" }, "not as people"));
      line.append(flags);
      body.append(line);
    });
    if (!body.children.length) return element("p", { class: "quiet" }, "There is none.");
    return element("div", { class: "scroll" }, element("table", { class: "verdicts" }, element("thead", {}, head), body));
  };

  const exchange = (row, order, held) => {
    const node = element("section", {}, element("h3", {}, `Text ${order.a} as A, Text ${order.a === "1" ? "2" : "1"} as B`));
    held.attempts.forEach((attempt, place) => node.append(request(attempt, place, held.attempts.length)));
    if (!held.attempts.length) node.append(element("p", { class: "quiet" }, "No request is kept."));
    for (const failure of held.failures) {
      node.append(element("p", { class: "warning" }, `${failure.at}: ${failure.kind}: ${failure.detail}`));
    }
    return node;
  };

  const request = (attempt, place, count) => {
    const facts = element("dl", { class: "facts" });
    for (const [name, value] of Object.entries(attempt.facts)) facts.append(element("dt", {}, name), element("dd", {}, element("bdi", {}, value)));
    const node = element("div", { class: "attempt" }, count > 1 ? element("p", { class: "label" }, `Request ${place + 1} of ${count}`) : null, facts);
    const block = (title, text) => {
      if (text !== null && text !== "") node.append(element("p", { class: "label" }, title), words(text, "div", "answer words"));
    };
    block("Reasoning", attempt.reasoning);
    block("Answer", attempt.answer);
    if (attempt.problem !== null) node.append(element("p", { class: "warning" }, `Not read: ${attempt.problem}`));
    node.append(fold("request", "Request as sent", () => [
      ...(attempt.settings ? [words(attempt.settings, "pre", "words")] : []),
      ...attempt.messages.flatMap(([role, text]) => [element("p", { class: "label" }, role || "as sent"), words(text, "pre", "words")]),
      ...(attempt.messages.length || attempt.settings ? [] : [element("p", { class: "quiet" }, "It was not kept.")]),
    ]));
    if (attempt.raw) node.append(fold("raw", "Answer as it came", () => [words(attempt.raw, "pre", "words")]));
    return node;
  };

  const unfolded = { request: false, raw: false };  // kept from one comparison to the next
  const fold = (kind, title, fill) => {
    const node = element("details", { "data-kind": kind }, element("summary", {}, title));
    const filled = () => { if (node.open && node.children.length === 1) node.append(...fill()); };
    node.addEventListener("toggle", filled);
    node.open = unfolded[kind];
    filled();
    return node;
  };
  const toggle = (kind) => {
    unfolded[kind] = !unfolded[kind];
    for (const node of detail.querySelectorAll(`details[data-kind="${kind}"]`)) node.open = unfolded[kind];
  };

  // What can be chosen, and by which keys.

  const options = (id, ...entries) => byId(id).append(...entries.map(([value, text]) => element("option", { value }, text)));
  const numbered = (names) => names.map((name, place) => [String(place), name]);
  options("judge", ["", "all"], ...numbered(index.judges));
  options("criterion", ["", "any"], ...numbered(index.criteria.map(([, title]) => title)));
  options("verdict", ["", "any"], ["A", "A, shown first"], ["t", "tie"], ["B", "B, shown second"],
    ...(index.methods.length ? index.methods.map((name, place) => [`m${place}`, name]) : [["x1", "Text 1"], ["x2", "Text 2"]]));
  options("failure", ["", "any"], ["none", "none"], ["some", "some failure"], ...numbered(index.kinds));

  for (const each of filters) each.addEventListener("input", filter);
  byId("reset").form.addEventListener("reset", () => setTimeout(filter));
  byId("reset").form.addEventListener("submit", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const node = event.target.closest("li[data-place]");
    if (!node) return;
    choose(Number(node.dataset.place), false);
    if (getComputedStyle(list.parentElement.parentElement).display === "block") detail.scrollIntoView();
  });
  list.parentElement.addEventListener("scroll", () => {
    const pane = list.parentElement;
    if (pane.scrollTop + 2 * pane.clientHeight > pane.scrollHeight) more();
  });
  const page = () => Math.max(1, Math.floor(list.parentElement.clientHeight / 80));
  const moves = { ArrowDown: () => 1, ArrowUp: () => -1, PageDown: page, PageUp: () => -page(), Home: () => -Infinity, End: () => Infinity };
  const move = (by) => choose(Math.min(shown.length - 1, Math.max(0, chosen + by)));
  list.addEventListener("keydown", (event) => {
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(moves[event.key]());
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select")) {
      if (event.key === "Escape") list.focus();
      return;
    }
    const act = { j: () => move(1), k: () => move(-1), r: () => toggle("request"), w: () => toggle("raw"), "/": () => find.focus() }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  filter();
  const wanted = Number(location.hash.slice(1));
  if (location.hash && Number.isInteger(wanted)) choose(wanted);
})();
