// Sorts a table by the column whose heading is pressed, and shows all of its columns on a narrow screen.
const numberOf = cell => {
  const match = cell.textContent.trim().match(/^[+-]?[\d,]*\.?\d+/);
  return match ? Number(match[0].replaceAll(",", "")) : null;
};

function sortBy(table, heading) {
  const headings = [...heading.parentElement.children];
  const column = headings.indexOf(heading);
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const isText = column === 0;
  const first = isText || heading.dataset.better === "lower" ? "ascending" : "descending";
  const opposite = first === "ascending" ? "descending" : "ascending";
  const direction = heading.getAttribute("aria-sort") === first ? opposite : first;
  const sign = direction === "ascending" ? 1 : -1;
  const compare = (a, b) => {
    const [one, other] = [a.cells[column], b.cells[column]];
    if (isText) return sign * one.textContent.localeCompare(other.textContent, undefined, {numeric: true});
    const [x, y] = [numberOf(one), numberOf(other)];
    if (x === null || y === null) return (x === null) - (y === null);  // rows without a value come last
    return sign * (x - y);
  };
  body.append(...rows.sort(compare));
  headings.forEach(other => other.setAttribute("aria-sort", other === heading ? direction : "none"));
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const heading of table.tHead.rows[0].cells) {
    heading.querySelector("button").addEventListener("click", () => sortBy(table, heading));
  }
}

for (const button of document.querySelectorAll("button.columns")) {
  button.addEventListener("click", () => {
    const all = document.getElementById(button.getAttribute("aria-controls")).classList.toggle("all");
    button.setAttribute("aria-expanded", String(all));
    button.textContent = all ? "Show fewer columns" : "Show all columns";
  });
}
