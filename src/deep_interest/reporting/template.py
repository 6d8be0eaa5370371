"""HTML template of ``report.html``: self-contained, responsive, with a light and a dark colour scheme."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>$title</title>
<style>
:root { color-scheme: light dark; --text: #20262d; --soft: #5a6572; --background: #ffffff; --card: #f5f7f9; --line: #d8dee4; --accent: #1b6ca8; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e8ec; --soft: #a3adb8; --background: #14171b; --card: #1d2126; --line: #363d45; --accent: #6cb4ee; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--background); color: var(--text); font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
main { max-width: 1240px; margin: 0 auto; padding: 1.2rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
h3 { font-size: 1.02rem; margin: 0 0 .2rem; }
h4 { font-size: .86rem; margin: .6rem 0 0; color: var(--soft); font-weight: 600; }
p, li { max-width: 75ch; }
.soft, figcaption, details { color: var(--soft); font-size: .9rem; }
.conclusions li { margin-bottom: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { overflow-wrap: normal; text-align: right; padding: .34rem .55rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { text-align: left; font-weight: 600; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
tr.better td { background: var(--card); }
figure { margin: 1.6rem 0; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem; }
.wide { overflow-x: auto; }
td span { white-space: nowrap; }
.panels { display: grid; gap: .4rem 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, var(--min-width)), 1fr)); }
.panels > div { min-width: 0; }
pre { background: var(--card); padding: .7rem; border-radius: .4rem; white-space: pre-wrap; font-size: .78rem; }
a { color: var(--accent); }
@media (max-width: 760px) {
  table.cards thead { display: none; }
  table.cards tr { display: block; border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .7rem; margin-bottom: .6rem; }
  table.cards td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0; }
  table.cards td::before { content: attr(data-label); color: var(--soft); text-align: left; }
  table.cards td:first-child { font-size: 1rem; }
  table.cards td:first-child::before { content: none; }
  table.cards td:has(> div:empty) { display: none; }
  figure { padding: .6rem .4rem; }
}
</style>
</head>
<body>
<main>
<h1>$title</h1>
<p class="soft">$summary</p>
<h2>Conclusions</h2>
<ul class="conclusions">$sentences</ul>
<h2>Results</h2>
$table
<p class="soft">$sources</p>
<details><summary>How to read the table</summary><ul>$notes</ul></details>
<h2>Charts</h2>
$figures
<h2>Dataset</h2>
$data
<h2>Settings and versions</h2>
$settings
</main>
<script>$plotly</script>
<script>
const figures = $json;
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const truncate = text => text.length > 24 ? text.slice(0, 23) + "…" : text;
const wrap = text => text.length > 18 ? text.match(/.{1,17}(?:[ +]|$$)|.{1,17}/g).join("<br>") : text;
const plots = [];
for (const [id, figure] of Object.entries(figures)) {
  const element = document.getElementById(id);
  const layout = figure.layout;
  const entries = figure.data.filter(trace => trace.showlegend);
  const entryWidth = Math.max(0, ...entries.map(trace => 55 + 7 * trace.name.length));
  const rows = entries.length ? Math.ceil(entries.length / Math.max(1, Math.floor((element.clientWidth - 60) / entryWidth))) : 0;
  layout.height = Math.max(layout.height + 40 + 21 * rows, 42 * rows + 60);  // Plotly limits a legend to half of the height
  layout.margin.b = 50 + 21 * rows;
  layout.legend = {orientation: "h", x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container", font: {size: 11}};
  if (element.clientWidth < 500) for (const axis of ["xaxis", "yaxis"]) {
    layout[axis].tickfont = {size: (layout[axis].ticktext || []).length > 8 && axis == "xaxis" ? 8 : 10};
    if (layout[axis].ticktext) layout[axis].ticktext = layout[axis].ticktext.map(axis == "xaxis" ? truncate : wrap);
  }
  layout.font.color = style("--text");
  Plotly.newPlot(element, figure.data, layout, {responsive: true, displaylogo: false, displayModeBar: false});
  plots.push(element);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  plots.forEach(element => Plotly.relayout(element, {"font.color": style("--text")})));
</script>
</body>
</html>
"""
