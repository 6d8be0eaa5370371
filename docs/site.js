// On phones the rows of wide tables are cards (site.css). Copy the headings to the cells as labels.
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const headings = [...table.querySelectorAll("thead th")].map(heading => heading.textContent.trim());
  if (headings.length < 3) continue;
  table.dataset.cards = "";  // no class: the theme styles tables without one
  for (const row of table.querySelectorAll("tbody tr"))
    [...row.cells].forEach((cell, place) => cell.dataset.label = headings[place]);
}
