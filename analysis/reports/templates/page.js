"use strict";
// Tables of class "sortable": a click on a heading sorts, the field above filters. Nothing leaves the page.
const number = (text) => {
  const found = parseFloat(text.replace(/[<>,\u00a0\u2002]/g, "").replace("\u2212", "-"));
  return Number.isNaN(found) ? Infinity : found;
};
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const field = table.closest(".sortable-frame").querySelector("input");
  const count = table.closest(".sortable-frame").querySelector("output");
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const figures = head.classList.contains("figure");
      const keys = new Map(rows.map((row) => [row, row.cells[column].textContent]));
      rows.sort((one, other) => {
        const [a, b] = [keys.get(one), keys.get(other)];
        const [x, y] = [number(a), number(b)];
        const order = figures ? (x === y ? 0 : x < y ? -1 : 1) : a.localeCompare(b);
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
  const words = (row) => [...row.cells].map((cell) => cell.textContent.toLowerCase()).join(" ");
  const texts = new Map(rows.map((row) => [row, words(row)]));
  const filter = () => {
    const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !wanted.every((word) => texts.get(row).includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = wanted.length ? `${shown} of ${rows.length}` : "";
  };
  field.addEventListener("input", filter);
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
