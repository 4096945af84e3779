/* global all, element, number, superscript, redraws */
/* exported map_viewer, map_pair */
// Attention maps. Each weight is encoded as two base-64 characters; see encode_weights.
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
function decode(codes) {
  const weights = new Float64Array(codes.length / 2);
  for (let i = 0; i < weights.length; ++i) {
    const code = 64 * digits.indexOf(codes[2 * i]) + digits.indexOf(codes[2 * i + 1]);
    weights[i] = code === 0 ? 0 : code === 4095 ? NaN : 10 ** (10 * (code - 4094) / 4093);
  }
  return weights;
}
const log_floor = -7;  // the logarithmic shading covers 10⁻⁷ to 1
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
// The map as an image with one pixel per cell. Hidden cells are transparent.
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
// Draws the large map with its labels. Returns the position and size of its cells in CSS pixels.
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

// The maps of a run; they are decoded only once.
const decoded = new Map();
function maps_of(run) {
  if (!decoded.has(run))
    decoded.set(run, run.maps.map(map => ({...map, queries: run.labels[map.queries], keys: run.labels[map.keys],
                                           weights: decode(map.codes)})));
  return decoded.get(run);
}
const weight_text = weight => weight === 0 ? "0" : number(weight, 3);
// Writes "weight from query a at i to key b at j" into `place`.
function describe_cell(place, map, {i, j}) {
  const weight = map.weights[i * map.keys.length + j];
  place.textContent = "";
  element("b", place, weight_text(weight));
  place.append(" from query ");
  element("code", place, map.queries[i]);
  place.append(` at ${i} to key `);
  element("code", place, map.keys[j]);
  place.append(` at ${j}` + (weight === 0 ? ", hidden by the mask (or rounded to 0)" : ""));
}
// The cell chosen at first: the largest weight of the middle row.
function first_cell(map) {
  const i = map.queries.length >> 1, row = map.weights.slice(i * map.keys.length, (i + 1) * map.keys.length);
  return {i, j: row.reduce((best, weight, j) => weight > row[best] ? j : best, 0)};
}
const is_inside = (cell, map) => cell && cell.i < map.queries.length && cell.j < map.keys.length;
// Calls choose(cell) when the pointer or an arrow key moves to another cell of the map in
// `state()`.
function choose_by(canvas, state, choose) {
  canvas.onpointermove = canvas.onpointerdown = event => {
    const {map, geometry} = state();
    if (!geometry) return;
    const box = canvas.getBoundingClientRect(), {margin, cell, row} = geometry;
    const at = {i: Math.floor((event.clientY - box.top - margin) / row),
                j: Math.floor((event.clientX - box.left - margin) / cell)};
    if (at.i >= 0 && at.j >= 0 && is_inside(at, map)) choose(at);
  };
  canvas.onkeydown = event => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    const {map, chosen} = state();
    if (!step || !chosen) return;
    event.preventDefault();
    choose({i: Math.max(0, Math.min(map.queries.length - 1, chosen.i + step[0])),
            j: Math.max(0, Math.min(map.keys.length - 1, chosen.j + step[1]))});
  };
}
function draw_at_new_width(canvas, draw) {
  let last_width = 0;
  redraws.push(draw);
  new ResizeObserver(() => {
    if (canvas.clientWidth !== last_width) { last_width = canvas.clientWidth; draw(); }
  }).observe(canvas);
}

// A viewer: thumbnails of all heads, the chosen head large, the chosen row as text.
function map_viewer(root, run) {
  const maps = maps_of(run);
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

  function choose(cell) {
    chosen = is_inside(cell, map) ? cell : first_cell(map);
  }
  function describe() {
    const {i} = chosen;
    describe_cell(find(".map-value"), map, chosen);
    const tokens = find(".map-tokens"), shade = shades();
    tokens.textContent = "";
    map.keys.forEach((token, key) => {
      const p = map.weights[i * map.keys.length + key], t = strength(p, log_box.checked);
      const span = element("span", tokens, token.replaceAll("␣", " "));
      span.dataset.tip = `${token} at ${key}\n${weight_text(p)}`;
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
  choose_by(canvas, () => ({map, chosen, geometry}), cell => { chosen = cell; update(); });
  log_box.onchange = draw;
  canvas.shown_map = () => map;
  draw_at_new_width(canvas, draw);
}

// The same head of two runs side by side. A cell is chosen in both maps at once.
function map_pair(root, runs) {
  const head = root.querySelector(".map-head"), log_box = root.querySelector("input"), heads = new Map();
  const sides = all(".panels > div", root).map(div => {
    const side = {choice: div.querySelector("select"), canvas: div.querySelector("canvas"), value: div.querySelector("p")};
    side.run = () => runs[side.choice.value];
    side.map = () => maps_of(side.run()).find(map => `${map.layer} ${map.head}` === head.value);
    return side;
  });
  let chosen = null;
  function offer_heads() {
    const before = head.value;
    heads.clear();
    for (const side of sides)
      for (const map of maps_of(side.run())) heads.set(`${map.layer} ${map.head}`, `layer ${map.layer}, head ${map.head}`);
    head.textContent = "";
    for (const [key, text] of heads) element("option", head, text).value = key;
    if (heads.has(before)) head.value = before;
  }
  function draw() {
    for (const side of sides) {
      const map = side.map();
      side.value.textContent = map ? "" : "This run has no such head.";
      side.canvas.style.visibility = map ? "visible" : "hidden";
      if (!map) continue;
      if (!is_inside(chosen, map)) chosen = first_cell(map);
      side.geometry = draw_map(side.canvas, map, log_box.checked, chosen);
      side.canvas.ariaLabel = `Attention weights of ${side.run().name}, ${heads.get(head.value)}. Arrow keys move the cell.`;
      describe_cell(side.value, map, chosen);
    }
  }
  for (const side of sides) {
    side.choice.onchange = () => { offer_heads(); draw(); };
    side.canvas.shown_map = side.map;
    choose_by(side.canvas, () => ({map: side.map(), chosen, geometry: side.geometry}), cell => { chosen = cell; draw(); });
    draw_at_new_width(side.canvas, draw);
  }
  head.onchange = log_box.onchange = draw;
  offer_heads();
}
