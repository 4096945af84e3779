"use strict";
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

// Theme: automatic, light, dark, in turn. Canvases are drawn again, as their colours come from the
// style sheet.
const redraws = [];
const redraw = () => redraws.forEach(f => f());
const themes = ["auto", "light", "dark"];
const theme_button = document.querySelector(".theme");
function set_theme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  theme_button.textContent = "Theme: " + theme;
  try { localStorage.setItem("vitrine-theme", theme); } catch { /* storage may be closed to local files */ }
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

// Tabs: one run at a time. Without this script all runs stand below each other.
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

// Line charts. The paths hold the points; the scales of the plot turn them back into values.
const scale_of = text => {
  const [low, high, kind] = text.split(" ");
  return t => kind === "log" ? low * Math.pow(high / low, t) : +low + (high - low) * t;
};
const points_of = path => path.getAttribute("d").split(/[ML]/).slice(1).map(point => point.split(" ").map(Number));
function nearest(points, x) {
  let best = points[0];
  for (const point of points) if (Math.abs(point[0] - x) < Math.abs(best[0] - x)) best = point;
  return best;
}
all(".plot").forEach(plot => {
  const paths = all(".line", plot);
  if (!paths.length) return;
  const x_of = scale_of(plot.dataset.x), y_of = scale_of(plot.dataset.y);
  const lines = paths.map(path => ({path, points: null}));
  // Steps are whole numbers; over a short axis, and over a logarithmic one, x is any number. Paths
  // round it.
  const span = x_of(1) - x_of(0), linear = plot.dataset.x.endsWith("linear");
  const x_text = place => {
    const x = x_of(place / 1000);
    if (linear && (span > 20 || Math.abs(x) < 1e-5 * span)) return number(Math.round(x), 9);
    return number(x, 5);
  };
  const cursor = element("div", plot, "", "cursor");
  cursor.hidden = true;
  plot.addEventListener("pointermove", event => {
    const box = plot.getBoundingClientRect();
    const x = 1000 * (event.clientX - box.left) / box.width;
    let at = null;
    const rows = [];
    for (const line of lines) {
      line.points ??= points_of(line.path);
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
      return `${name}: ${number(y_of(1 - point[1] / 1000))}${elsewhere}`;
    });
    show_tip([`${plot.dataset.xLabel} ${x_text(at)}`, ...text].join("\n"), event);
  });
  plot.addEventListener("pointerleave", () => { cursor.hidden = true; tip.hidden = true; });
});

// Legends: an entry switches its lines off and on; pointing at it dims the others.
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

// Attention maps. Weights come as two base-64 characters each, see encode_weights.
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
function decode(codes) {
  const weights = new Float64Array(codes.length / 2);
  for (let i = 0; i < weights.length; ++i) {
    const code = 64 * digits.indexOf(codes[2 * i]) + digits.indexOf(codes[2 * i + 1]);
    weights[i] = code === 0 ? 0 : code === 4095 ? NaN : 10 ** (10 * (code - 4094) / 4093);
  }
  return weights;
}
const log_floor = -7;  // the logarithmic shading runs from 10⁻⁷ to 1
const strength = (weight, log) => log ? Math.min(1, Math.max(0, 1 - Math.log10(weight) / log_floor)) : Math.min(1, weight);
const style_color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const channels = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
function shades() {
  const stops = Array.from({length: 11}, (_, i) => channels(style_color("--s" + i)));
  return t => {
    const i = Math.min(9, Math.floor(10 * t)), part = 10 * t - i;
    return stops[i].map((value, c) => Math.round(value + part * (stops[i + 1][c] - value)));
  };
}
// The map as an image of one pixel per cell. Hidden cells stay clear.
function image_of(map, log) {
  const canvas = document.createElement("canvas");
  canvas.width = map.keys.length;
  canvas.height = map.queries.length;
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  const shade = shades(), odd = channels(style_color("--warn"));
  map.weights.forEach((weight, i) => {
    if (weight === 0) return;
    image.data.set([...(Number.isNaN(weight) ? odd : shade(strength(weight, log))), 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}
// The large map with its labels; returns where its cells lie, in CSS pixels.
function draw_map(canvas, map, log, chosen) {
  const width = canvas.clientWidth, margin = 34, font = 11;
  if (!width) return null;
  const cell = (width - margin) / map.keys.length;
  const height = Math.ceil(margin + Math.min(cell * map.queries.length, 1.4 * width));
  const row = (height - margin) / map.queries.length;
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.strokeStyle = style_color("--line");
  context.strokeRect(margin - 0.5, margin - 0.5, width - margin, height - margin);
  context.imageSmoothingEnabled = false;
  context.drawImage(image_of(map, log), margin, margin, width - margin, height - margin);
  context.font = font + "px ui-monospace, 'DejaVu Sans Mono', monospace";
  context.textBaseline = "middle";
  const label = (text, i, size, place) => {
    const stride = Math.ceil((font + 1) / size), on = chosen && (place === "left" ? chosen.i : chosen.j) === i;
    const near = chosen && Math.abs((place === "left" ? chosen.i : chosen.j) - i) * size < font + 1;
    if (!on && (i % stride !== 0 || near)) return;
    context.fillStyle = style_color(on ? "--text" : "--soft");
    context.save();
    if (place === "left") context.translate(margin - 5, margin + (i + 0.5) * size);
    else { context.translate(margin + (i + 0.5) * size, margin - 5); context.rotate(Math.PI / 2); }
    context.textAlign = "right";
    context.fillText(text.length > 4 ? text.slice(0, 3) + "…" : text, 0, 0);
    context.restore();
  };
  map.queries.forEach((text, i) => label(text, i, row, "left"));
  map.keys.forEach((text, j) => label(text, j, cell, "top"));
  if (chosen) {
    context.strokeStyle = style_color("--warn");
    context.lineWidth = 2;
    context.strokeRect(margin + chosen.j * cell - 1, margin + chosen.i * row - 1, cell + 2, row + 2);
    context.globalAlpha = 0.45;
    context.lineWidth = 1;
    context.strokeRect(margin, margin + chosen.i * row, width - margin, row);
  }
  return {margin, cell, row};
}

// A viewer: thumbnails of all heads, the chosen head large, the chosen row as text.
function map_viewer(root, run) {
  const maps = run.maps.map(map => ({...map, queries: run.labels[map.queries], keys: run.labels[map.keys],
                                     weights: decode(map.codes)}));
  const find = selector => root.querySelector(selector);
  const canvas = find(".map-main canvas"), log_box = find(".map-shade input"), ends = all(".map-legend span", root);
  const rows = [...new Set(maps.map(map => map.layer))].sort((a, b) => a - b);
  const columns = [...new Set(maps.map(map => map.head))].sort((a, b) => a - b);
  let map = maps[0], chosen = null, geometry = null;

  const grid = find(".map-thumbs");
  grid.style.gridTemplateColumns = `2.6rem repeat(${columns.length}, minmax(0, 3.2rem))`;
  element("span", grid, "");
  columns.forEach(head => element("span", grid, "head " + head));
  for (const layer of rows) {
    element("span", grid, "layer " + layer);
    for (const head of columns) {
      const own = maps.find(map => map.layer === layer && map.head === head);
      if (!own) { element("span", grid, ""); continue; }
      own.button = element("button", grid);
      own.button.type = "button";
      own.button.ariaLabel = `layer ${layer}, head ${head}`;
      own.thumb = element("canvas", own.button);
      own.button.onclick = () => { map = own; choose(chosen); draw(); };
    }
  }

  // Where the row of the middle has its largest weight: a cell worth a look.
  function first_cell() {
    const i = map.queries.length >> 1, row = map.weights.slice(i * map.keys.length, (i + 1) * map.keys.length);
    return {i, j: row.reduce((best, weight, j) => weight > row[best] ? j : best, 0)};
  }
  function choose(cell) {
    const inside = cell && cell.i < map.queries.length && cell.j < map.keys.length;
    chosen = inside ? cell : first_cell();
  }
  function describe() {
    const {i, j} = chosen, weight = map.weights[i * map.keys.length + j], value = find(".map-value");
    value.textContent = "";
    element("b", value, weight === 0 ? "0" : number(weight, 3));
    value.append(" from query ");
    element("code", value, map.queries[i]);
    value.append(` at ${i} to key `);
    element("code", value, map.keys[j]);
    value.append(` at ${j}` + (weight === 0 ? ", hidden by the mask (or rounded to 0)" : ""));
    const tokens = find(".map-tokens"), shade = shades();
    tokens.textContent = "";
    map.keys.forEach((token, key) => {
      const p = map.weights[i * map.keys.length + key], t = strength(p, log_box.checked);
      const span = element("span", tokens, token.replaceAll("␣", " "));
      span.dataset.tip = `${token} at ${key}\n${p === 0 ? "0" : number(p, 3)}`;
      if (p === 0) span.className = "masked";
      else if (p > 0) {
        span.style.background = `rgb(${shade(t)})`;
        span.style.color = t > 0.55 ? "var(--t1)" : "var(--t0)";
      }
      if (key === i && map.queries.length === map.keys.length) span.classList.add("query");
      if (token === "⏎") element("br", tokens);
    });
  }
  function draw() {
    if (!canvas.clientWidth) return;
    const log = log_box.checked;
    if (!chosen) choose(null);
    find("h4").textContent = `Layer ${map.layer}, head ${map.head}: queries down, keys across`;
    canvas.ariaLabel = `Attention weights of layer ${map.layer}, head ${map.head}. Arrow keys move the cell.`;
    ends[0].textContent = log ? "10" + superscript(log_floor) : "0";
    ends[1].textContent = "1";
    for (const other of maps) {
      other.button.ariaPressed = other === map;
      const image = image_of(other, log);
      other.thumb.width = image.width;
      other.thumb.height = image.height;
      other.thumb.getContext("2d").drawImage(image, 0, 0);
    }
    update();
  }
  function update() {
    geometry = draw_map(canvas, map, log_box.checked, chosen);
    describe();
  }
  canvas.onpointermove = canvas.onpointerdown = event => {
    const box = canvas.getBoundingClientRect(), {margin, cell, row} = geometry;
    const i = Math.floor((event.clientY - box.top - margin) / row), j = Math.floor((event.clientX - box.left - margin) / cell);
    if (i < 0 || j < 0 || i >= map.queries.length || j >= map.keys.length) return;
    chosen = {i, j};
    update();
  };
  canvas.onkeydown = event => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!step) return;
    event.preventDefault();
    chosen = {i: Math.max(0, Math.min(map.queries.length - 1, chosen.i + step[0])),
              j: Math.max(0, Math.min(map.keys.length - 1, chosen.j + step[1]))};
    update();
  };
  log_box.onchange = draw;
  redraws.push(draw);
  let last_width = 0;
  new ResizeObserver(() => {
    if (canvas.clientWidth !== last_width) { last_width = canvas.clientWidth; draw(); }
  }).observe(canvas);
}

const runs = JSON.parse(document.getElementById("data").textContent);
all(".maps").forEach(root => map_viewer(root, runs[root.dataset.run]));
let stored = "auto";
try { stored = localStorage.getItem("vitrine-theme") ?? "auto"; } catch { /* as above */ }
set_theme(themes.includes(stored) ? stored : "auto");
if (tabs.length) choose_run(0);
