"use strict";
// The button for light and dark, and tables that sort.
(() => {
  const root = document.documentElement;
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (prefersDark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });

  // Numbers sort by their key; a cell without one stays last in either direction.
  const compare = (a, b, isNumber, sign) => {
    if (!isNumber) return sign * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
    const [x, y] = [a.dataset.key, b.dataset.key];
    if (x === "" || y === "") return (x === "") - (y === "");
    return sign * (Number(x) - Number(y));
  };

  const sort = (table, index) => {
    const heads = [...table.tHead.rows[0].cells];
    const isNumber = heads[index].classList.contains("number");
    const before = heads[index].getAttribute("aria-sort");
    // Numbers begin with the largest, words with the first letter.
    const first = isNumber ? "descending" : "ascending";
    const other = isNumber ? "ascending" : "descending";
    const order = before === first ? other : first;
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[index].setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(a.cells[index], b.cells[index], isNumber, sign));
    table.tBodies[0].append(...rows);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      head.querySelector("button").addEventListener("click", () => sort(table, index));
    });
  }
})();
