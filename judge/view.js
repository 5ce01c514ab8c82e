"use strict";
// Filters the comparisons. Everything else on the page works without a script.
const field = (name) => document.getElementById(name);
const filters = ["judge", "criterion", "verdict", "flip", "failure", "find"];
const comparisons = [...document.querySelectorAll(".comparison")];

function matches(comparison, wanted) {
  const { judge, flip, kinds } = comparison.dataset;
  if (wanted.judge && judge !== wanted.judge) return false;
  if (wanted.flip && flip !== wanted.flip) return false;
  if (wanted.failure && !kinds.split(" ").includes(wanted.failure)) return false;
  if (wanted.verdict) {
    const verdict = `${wanted.criterion}=${wanted.verdict}`;
    const shown = [...comparison.querySelectorAll(".shown")];
    if (!shown.some((order) => order.dataset.better.split(";").includes(verdict))) return false;
  }
  const words = comparison.querySelector("summary").textContent.toLowerCase();
  return !wanted.find || words.includes(wanted.find.toLowerCase());
}

function apply() {
  const wanted = Object.fromEntries(filters.map((name) => [name, field(name).value.trim()]));
  let count = 0;
  for (const comparison of comparisons) {
    comparison.hidden = !matches(comparison, wanted);
    count += comparison.hidden ? 0 : 1;
  }
  field("counts").textContent = `${count} of ${comparisons.length} comparisons`;
}

/* Put the comparisons on which raters disagree most first, or all in their own order. */
function sort() {
  const by = field("order").value;
  const sorted = by ? [...comparisons].sort((one, other) => other.dataset[by] - one.dataset[by]) : comparisons;
  document.querySelector("main").append(...sorted);
}

field("order").addEventListener("input", sort);
for (const name of filters) field(name).addEventListener("input", apply);
document.querySelector(".filters").addEventListener("reset", () => setTimeout(() => { apply(); sort(); }));
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
