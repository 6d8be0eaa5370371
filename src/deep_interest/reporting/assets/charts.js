// Draws the charts: the panels of a figure are separate plots, which the page arranges by its width.
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const truncate = text => text.length > 24 ? text.slice(0, 23) + "…" : text;
const wrap = text => text.length > 18 ? text.match(/.{1,17}(?:[ +]|$)|.{1,17}/g).join("<br>") : text;
const plots = [];

// Labels at points were placed for several widths of the plot area, in pixels; the plot gets the largest that fits.
function placeLabels(layout, available, color) {
  const placements = layout.meta.labels;
  if (!placements) return;
  const margins = layout.margin.l + layout.margin.r;
  const widths = Object.keys(placements).map(Number).sort((a, b) => a - b);
  const width = widths.filter(candidate => candidate + margins <= available).pop() || widths[0];
  const offsets = placements[width].values();
  for (const annotation of layout.annotations.filter(annotation => annotation.name === "point label")) {
    const [x, y] = offsets.next().value;
    Object.assign(annotation, {ax: x, ay: y, font: {size: 11, color}});
  }
  layout.width = width + margins;
}

function layoutFor(figure, width, print = false) {
  const layout = structuredClone(figure.layout);
  const entries = figure.data.filter(trace => trace.showlegend);
  const entryWidth = Math.max(0, ...entries.map(trace => 55 + 7 * trace.name.length));
  const rows = entries.length ? Math.ceil(entries.length / Math.max(1, Math.floor((width - 60) / entryWidth))) : 0;
  const height = layout.height + 40;  // Plotly limits a legend to half of the height
  layout.height = layout.meta.labels ? layout.height + 21 * rows : Math.max(height + 21 * rows, 42 * rows + 60);
  layout.margin.b = 50 + 21 * rows;
  layout.legend = {orientation: "h", x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container", font: {size: 11}};
  if (width < 500) for (const axis of ["xaxis", "yaxis"]) {
    layout[axis].tickfont = {size: (layout[axis].ticktext || []).length > 8 && axis === "xaxis" ? 8 : 10};
    if (layout[axis].ticktext) layout[axis].ticktext = layout[axis].ticktext.map(axis === "xaxis" ? truncate : wrap);
  }
  layout.font.color = print ? "#000" : style("--text");
  layout.width = width;
  placeLabels(layout, width, layout.font.color);
  if (print) layout.height = Math.min(layout.height, 820);  // a figure fits a page
  return layout;
}

for (const [id, figure] of Object.entries(figures)) {
  const element = document.getElementById(id);
  Plotly.newPlot(element, figure.data, layoutFor(figure, element.clientWidth), {displaylogo: false, displayModeBar: false});
  plots.push([element, figure]);
}

const redraw = (widthOf, print = false) => plots.forEach(([element, figure]) =>
  Plotly.react(element, figure.data, layoutFor(figure, widthOf(element), print)));
const ownWidth = element => element.clientWidth;
let shownWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== shownWidth) redraw(ownWidth);
  shownWidth = innerWidth;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(ownWidth));

// Paper has a width of its own, and nobody can open a closed section on it.
const closed = [];
addEventListener("beforeprint", () => {
  closed.push(...document.querySelectorAll("details:not([open])"));
  closed.forEach(details => { details.open = true; });
  redraw(element => element.closest(".panels").children.length > 1 ? 320 : 660, true);
});
addEventListener("afterprint", () => {
  closed.splice(0).forEach(details => { details.open = false; });
  redraw(ownWidth);
});
