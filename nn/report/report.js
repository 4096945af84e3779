"use strict";
/* exported x_value, set_theme, choose_run */
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const element = (name, parent, text = "", css = "") => {
  const node = document.createElement(name);
  node.textContent = text;
  node.className = css;
  parent.append(node);
  return node;
};
const superscript = n => String(n).replace(/./g, c => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");
function number(value, digits = 4) {
  if (!Number.isFinite(value)) return String(value);
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  if (value !== 0 && (exponent < -3 || exponent > 14)) return `${+mantissa}×10${superscript(+exponent)}`;
  return (+value.toPrecision(digits)).toLocaleString("en", {maximumFractionDigits: 12});
}

// Theme: each click selects the next of automatic, light and dark. Canvases are drawn again,
// because their colours come from the style sheet.
const redraws = [];
const redraw = () => redraws.forEach(f => f());
const themes = ["auto", "light", "dark"];
const theme_button = document.querySelector(".theme");
function set_theme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  theme_button.textContent = "Theme: " + theme;
  try { localStorage.setItem("vitrine-theme", theme); } catch { /* browsers may deny storage to local files */ }
  redraw();
}
theme_button.onclick = () => {
  const now = document.documentElement.dataset.theme ?? "auto";
  set_theme(themes[(themes.indexOf(now) + 1) % themes.length]);
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

const tip = element("div", document.body, "", "tip");
tip.hidden = true;
function show_tip(text, event) {
  tip.textContent = text;
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  const right = event.clientX + 16 + width > innerWidth;
  tip.style.left = Math.max(4, right ? event.clientX - width - 12 : event.clientX + 16) + "px";
  tip.style.top = Math.min(innerHeight - height - 4, event.clientY + 16) + "px";
}
document.addEventListener("pointermove", event => {
  const target = event.target.closest?.("[data-tip]");
  if (target) show_tip(target.dataset.tip, event);
  else if (!event.target.closest?.(".plot")) tip.hidden = true;
});

// Tabs show one run at a time. Without this script, all runs are visible, one below the other.
const tabs = all(".tabs button"), panels = all(".run");
function choose_run(index) {
  panels.forEach((panel, i) => panel.hidden = i !== index);
  tabs.forEach((tab, i) => { tab.ariaSelected = i === index; tab.tabIndex = i === index ? 0 : -1; });
  redraw();
}
tabs.forEach((tab, i) => {
  tab.onclick = () => choose_run(i);
  tab.onkeydown = event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const next = (i + step + tabs.length) % tabs.length;
    choose_run(next);
    tabs[next].focus();
  };
});

// Line charts. The paths contain the points; the scales of the plot convert them back to values.
const scale_of = text => {
  const [low, high, kind] = text.split(" ");
  return t => kind === "log" ? low * Math.pow(high / low, t) : +low + (high - low) * t;
};
const numbers = text => text.split(" ").map(Number);
const points_of = path => path.getAttribute("d").split(/[ML]/).slice(1).map(numbers);
// The points of a band as [x, highest, lowest]. Each piece of its path follows the highest values
// and returns along the lowest.
function band_of(path) {
  return path.getAttribute("d").split("Z").filter(Boolean).flatMap(piece => {
    const points = piece.split(/[ML]/).slice(1).map(numbers), half = points.length / 2;
    return points.slice(0, half).map(([x, high], i) => [x, high, points[points.length - 1 - i][1]]);
  });
}
function nearest(points, x) {
  let best = points[0];
  for (const point of points) if (Math.abs(point[0] - x) < Math.abs(best[0] - x)) best = point;
  return best;
}
// The x value at a place. Paths round it, so a linear axis over more than 20 gives whole numbers
// (steps); other axes give any number.
function x_value(plot, place) {
  const x_of = scale_of(plot.dataset.x), x = x_of(place / 1000), span = x_of(1) - x_of(0);
  const whole = plot.dataset.x.endsWith("linear") && (span > 20 || Math.abs(x) < 1e-5 * span);
  return whole ? Math.round(x) : +x.toPrecision(5);
}
const y_value = (plot, place) => scale_of(plot.dataset.y)(1 - place / 1000);
all(".plot").forEach(plot => {
  const paths = all(".line, .band", plot);
  if (!paths.length) return;
  const lines = paths.map(path => ({path, points: null}));
  const x_text = place => number(x_value(plot, place), 9);
  const cursor = element("div", plot, "", "cursor");
  cursor.hidden = true;
  plot.addEventListener("pointermove", event => {
    const box = plot.getBoundingClientRect();
    const x = 1000 * (event.clientX - box.left) / box.width;
    let at = null;
    const rows = [];
    for (const line of lines) {
      line.points ??= (line.path.classList.contains("band") ? band_of : points_of)(line.path);
      if (!line.points.length || line.path.classList.contains("off")) continue;
      const point = nearest(line.points, x);
      if (Math.abs(point[0] - x) > 60) continue;
      if (at === null || Math.abs(point[0] - x) < Math.abs(at - x)) at = point[0];
      rows.push([line.path.dataset.name, point]);
    }
    cursor.hidden = at === null;
    if (at === null) { tip.hidden = true; return; }
    cursor.style.left = at / 10 + "%";
    const text = rows.map(([name, point]) => {
      const elsewhere = Math.abs(point[0] - at) > 2 ? ` (${plot.dataset.xLabel} ${x_text(point[0])})` : "";
      const values = point.slice(1).reverse().map(y => number(y_value(plot, y)));
      return `${name}: ${values.join(" to ")}${elsewhere}`;
    });
    show_tip([`${plot.dataset.xLabel} ${x_text(at)}`, ...text].join("\n"), event);
  });
  plot.addEventListener("pointerleave", () => { cursor.hidden = true; tip.hidden = true; });
});

// Legends: a click on an entry hides or shows its lines; pointing at it dims the others.
all(".chart").forEach(chart => all(".legend button", chart).forEach(button => {
  const drawn = all("svg [data-series]", chart);
  const own = node => node.dataset.series === button.dataset.series;
  button.onclick = () => {
    const on = button.ariaPressed !== "true";
    button.ariaPressed = on;
    drawn.filter(own).forEach(node => node.classList.toggle("off", !on));
  };
  button.onpointerenter = () => drawn.forEach(node => node.classList.toggle("dim", !own(node)));
  button.onpointerleave = () => drawn.forEach(node => node.classList.remove("dim"));
}));
