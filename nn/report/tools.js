/* global all, element, x_value, y_value, points_of, band_of */
/* exported add_tools */
// The tools of every chart: enlarge it for a projector, save its numbers as CSV, save its picture
// as SVG.
const svg_space = "http://www.w3.org/2000/svg";
const slug = text => text.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 80) || "chart";
function save(name, kind, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type: kind}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// CSV: one line per row. Fields with commas, quotes or line breaks are quoted.
const csv_field = value => /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
const csv = rows => rows.map(row => row.map(csv_field).join(",") + "\n").join("");
// The points of a chart as drawn: long lines are reduced, and values have the precision of the
// picture.
function chart_rows(chart) {
  const plot = chart.querySelector(".plot"), bars = all(".bars", plot), y_label = chart.querySelector(".y-label").textContent;
  const round = value => +value.toPrecision(6);
  if (bars.length) {
    const names = all(".legend button", chart).map(button => button.textContent);
    const rows = bars.flatMap((path, i) => {
      const points = points_of({getAttribute: () => path.getAttribute("d").replace("Z", "")}).slice(1, -1);
      return points.filter((_, at) => at % 2 === 0).map(([left, top], at) => {
        const right = points[2 * at + 1][0];
        return [names[i] ?? "", x_value(plot, left), x_value(plot, right), round(y_value(plot, top))];
      });
    });
    return [["series", "from", "to", y_label], ...rows];
  }
  const rows = all(".line, .band", plot).flatMap(path => {
    if (!path.classList.contains("band"))
      return points_of(path).map(([x, y]) => [path.dataset.name, x_value(plot, x), round(y_value(plot, y))]);
    return band_of(path).flatMap(([x, high, low]) => [[path.dataset.name + " (lowest)", x_value(plot, x), round(y_value(plot, low))],
                                                      [path.dataset.name + " (highest)", x_value(plot, x), round(y_value(plot, high))]]);
  });
  return [["series", plot.dataset.xLabel, y_label], ...rows];
}
const table_rows = table => all("tr", table).map(row => all("th, td", row).map(cell => cell.textContent));
const map_rows = map => [["query", "key", "query token", "key token", "weight"],
                         ...Array.from(map.weights, (weight, at) => {
                           const i = Math.floor(at / map.keys.length), j = at % map.keys.length;
                           return [i, j, map.queries[i], map.keys[j], +weight.toPrecision(4)];
                         })];

// SVG: an element with attributes and text. The colours are those of the current theme.
function node(name, attributes, text = "") {
  const made = document.createElementNS(svg_space, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}
function picture(width, height, parts) {
  const svg = node("svg", {width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 18});
  const ground = getComputedStyle(document.querySelector(".card")).backgroundColor;
  svg.append(node("rect", {width, height, fill: ground}), ...parts);
  return new XMLSerializer().serializeToString(svg);
}
const looks = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity"];
const color_of = (selector, root) => getComputedStyle(root.querySelector(selector)).color;
const share = (element, side) => parseFloat(element.style[side]) / 100;
function chart_svg(chart, title) {
  const left = 110, right = 30, width = 1200, plot_width = width - left - right, plot_height = 520;
  const soft = color_of(".x-label", chart), text = getComputedStyle(document.body).color, parts = [];
  const write = (words, x, y, more = {}) => parts.push(node("text", {x, y, fill: soft, ...more}, words));
  write(title, 20, 36, {fill: text, "font-size": 24, "font-weight": 600});
  let x = 20, top = 68;
  for (const button of all(".legend button", chart)) {
    const step = 40 + 10 * button.textContent.length;
    if (x + step > width) { x = 20; top += 28; }
    const color = getComputedStyle(button.querySelector("i")).getPropertyValue("--color");
    parts.push(node("rect", {x, y: top - 12, width: 20, height: 8, fill: color}));
    write(button.textContent, x + 27, top - 3, {fill: text});
    x += step;
  }
  write("↑ " + chart.querySelector(".y-label").textContent, 20, top += 28);
  top += 14;
  const place_x = at => left + plot_width * at, place_y = at => top + plot_height * (1 - at);
  const inside = node("svg", {x: left, y: top, width: plot_width, height: plot_height, overflow: "hidden"});
  const scaled = d => d.replace(/(-?[\d.]+) (-?[\d.]+)/g, (_, a, b) => `${(a * plot_width / 1000).toFixed(2)} ${(b * plot_height / 1000).toFixed(2)}`);
  for (const drawn of all("svg > *", chart)) {
    const style = getComputedStyle(drawn), copy = node(drawn.tagName, {});
    if (style.display === "none" || drawn.classList.contains("bin")) continue;
    for (const look of looks) copy.setAttribute(look, style.getPropertyValue(look));
    if (drawn.tagName === "path") copy.setAttribute("d", scaled(drawn.getAttribute("d")));
    else for (const side of ["x1", "x2", "y1", "y2"])
      copy.setAttribute(side, drawn.getAttribute(side) * (side[0] === "x" ? plot_width : plot_height) / 1000);
    inside.append(copy);
  }
  parts.push(inside);
  for (const tick of all(".y-ticks span", chart)) write(tick.textContent, left - 10, place_y(share(tick, "bottom")) + 6, {"text-anchor": "end"});
  for (const tick of all(".x-ticks span", chart)) write(tick.textContent, place_x(share(tick, "left")), top + plot_height + 26, {"text-anchor": "middle"});
  for (const mark of all(".mark-label", chart)) {
    const upright = mark.classList.contains("upright");
    if (upright) write(mark.textContent, place_x(share(mark, "left")) + 5, top + 18);
    else write(mark.textContent, width - right - 6, place_y(share(mark, "bottom")) - 6, {"text-anchor": "end"});
  }
  write(chart.querySelector(".x-label").textContent + " →", width - right, top + plot_height + 56, {"text-anchor": "end"});
  return picture(width, top + plot_height + 76, parts);
}
// A table of shaded cells, each as wide as its longest text.
function table_svg(table, title) {
  const rows = table_rows(table), parts = [node("text", {x: 20, y: 36, fill: color_of("caption", table), "font-size": 22}, title)];
  const wide = 24 + 10 * Math.max(...rows.flat().map(text => text.length)), high = 44;
  all("tr", table).forEach((row, i) => all("th, td", row).forEach((cell, j) => {
    const style = getComputedStyle(cell), at = {x: 20 + j * wide, y: 54 + i * high};
    if (cell.tagName === "TD") parts.push(node("rect", {...at, width: wide - 3, height: high - 3, rx: 4, fill: style.backgroundColor}));
    parts.push(node("text", {x: at.x + wide / 2, y: at.y + 27, "text-anchor": "middle", fill: style.color}, cell.textContent));
  }));
  return picture(40 + wide * rows[0].length, 74 + high * rows.length, parts);
}
// A canvas as an image in an SVG.
const canvas_svg = (canvas, title) => picture(canvas.width, canvas.height + 50, [
  node("text", {x: 12, y: 34, fill: getComputedStyle(document.body).color}, title),
  node("image", {y: 50, width: canvas.width, height: canvas.height, href: canvas.toDataURL()})]);

// An enlarged figure fills the window. Escape or the button restores it.
let enlarged = null;
function enlarge(figure) {
  if (enlarged) enlarged.classList.remove("enlarged");
  enlarged = figure === enlarged ? null : figure;
  if (enlarged) enlarged.classList.add("enlarged");
  document.body.classList.toggle("still", enlarged !== null);
}
document.addEventListener("keydown", event => { if (event.key === "Escape" && enlarged) enlarge(enlarged); });

// `title`, `rows` and `draw` are functions, because their results may change.
function add_buttons(figure, title, rows, draw) {
  const bar = element("div", figure, "", "tools");
  figure.prepend(bar);
  element("span", bar, title(), "tools-title");
  const button = (name, help, action) => {
    const made = element("button", bar, name);
    made.type = "button";
    made.title = help;
    made.onclick = action;
  };
  button("⤢", "Enlarge; again, or Escape: back", () => enlarge(figure));
  button("CSV", "Save the numbers", () => save(slug(title()) + ".csv", "text/csv", csv(rows())));
  button("SVG", "Save the picture", () => save(slug(title()) + ".svg", "image/svg+xml", draw()));
}
function add_tools() {
  for (const chart of all(".chart")) {
    const title = chart.querySelector("svg").getAttribute("aria-label"), plot = chart.querySelector(".plot");
    add_buttons(chart, () => title, () => chart_rows(chart), () => chart_svg(chart, title));
    plot.addEventListener("click", () => { if (enlarged !== chart) enlarge(chart); });
  }
  for (const table of all(".heat")) {
    const title = table.querySelector("caption").textContent;
    add_buttons(table.parentElement, () => title, () => table_rows(table), () => table_svg(table, title));
  }
  for (const canvas of all(".map-main canvas, .map-pair canvas")) {
    const title = () => canvas.ariaLabel?.split(". Arrow")[0] ?? "attention map";
    add_buttons(canvas.parentElement, title, () => map_rows(canvas.shown_map()), () => canvas_svg(canvas, title()));
  }
}
