// The style sheet of the report.
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

/// s0 … s10 shade heat tables and maps: one hue, evenly darker (lighter in the dark theme), so that lightness
/// alone carries the value and no colour vision is needed. t0 and t1 are the text on weak and on strong
/// shades.
constexpr const char* light_theme = R"css(
  color-scheme: light;
  --page: #f4f5f7; --card: #ffffff; --line: #dde1e7; --grid: #e9ecf0; --text: #1b1f26; --soft: #59616e;
  --accent: #0072b2; --warn: #d55e00;
  --s0: #f1f5f9; --s1: #e0ebf4; --s2: #cbdff0; --s3: #b0d0e9; --s4: #90bede; --s5: #6ca9d2; --s6: #4992c4;
  --s7: #2c7ab2; --s8: #17629b; --s9: #0b4b80; --s10: #063560; --t0: #1b1f26; --t1: #ffffff;
)css";
constexpr const char* dark_theme = R"css(
  color-scheme: dark;
  --page: #0e1116; --card: #171b22; --line: #2b313b; --grid: #232933; --text: #e7eaef; --soft: #a0a8b5;
  --accent: #56b4e9; --warn: #e69f00;
  --s0: #1d232c; --s1: #1d2e3f; --s2: #1c3a54; --s3: #1b476a; --s4: #1d5782; --s5: #266a9b; --s6: #3a80b3;
  --s7: #5798c8; --s8: #7cb2da; --s9: #a8cdea; --s10: #d9ebf8; --t0: #e7eaef; --t1: #0e1116;
)css";

constexpr const char* page_rules = R"css(
* { box-sizing: border-box; }
html { font-size: clamp(15px, 0.8rem + 0.32vw, 21px); }
body { margin: 0 auto; max-width: 84rem; padding: clamp(0.8rem, 2.5vw, 2.2rem); background: var(--page);
  color: var(--text); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header { display: flex; align-items: flex-start; gap: 1rem; margin-bottom: 1.2rem; }
header > div { flex: 1; min-width: 0; }
h1 { margin: 0; font-size: 1.75rem; line-height: 1.2; letter-spacing: -0.015em; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 0.8rem; font-size: 1.35rem; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h3 { margin: 0 0 0.15rem; font-size: 1.05rem; }
h4 { margin: 0 0 0.4rem; font-size: 0.92rem; font-weight: 600; overflow-wrap: anywhere; }
footer, .subtitle { color: var(--soft); font-size: 0.88rem; margin: 0.2rem 0 0; }
footer { margin-top: 2rem; }
button { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem;
  padding: 0.25rem 0.7rem; cursor: pointer; }
button:hover { border-color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.cards { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; }
.card { min-width: 0; background: var(--card); border: 1px solid var(--line); border-radius: 0.75rem;
  padding: 1.1rem 1.3rem 1rem; }
.wide { grid-column: 1 / -1; }
@media (max-width: 52rem) {
  .cards { grid-template-columns: minmax(0, 1fr); }
  .card { padding: 0.9rem 0.9rem 0.8rem; }
}
.why { margin: 0 0 0.9rem; color: var(--soft); font-size: 0.88rem; max-width: 62rem; text-wrap: pretty; }
.why i { font-family: Georgia, "DejaVu Serif", serif; }
.why sub, .why sup { line-height: 0; font-size: 0.75em; }
.note, .missing { color: var(--soft); font-size: 0.85rem; margin: 0.5rem 0 0; }
.note::before { content: "Note: "; color: var(--warn); font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.7rem; margin: 0 0 1rem; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 0.75rem; padding: 0.7rem 1rem; }
.tile b { display: block; font-size: 1.4rem; font-weight: 650; letter-spacing: -0.01em;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile span { color: var(--soft); font-size: 0.8rem; line-height: 1.3; display: block; }
.tiles.small { margin: 0.9rem 0 0; grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); }
.small .tile { padding: 0.45rem 0.7rem; background: none; }
.small .tile b { font-size: 1.1rem; }
.tabs { display: flex; flex-wrap: wrap; gap: 0.4rem; margin: 0 0 1rem; }
.tabs button[aria-selected="true"] { background: var(--accent); border-color: var(--accent); color: var(--card); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
.totals, .settings { width: 100%; }
.totals th, .totals td, .settings th, .settings td { text-align: left; font-weight: 400; padding: 0.35rem 0.9rem 0.35rem 0;
  border-bottom: 1px solid var(--grid); vertical-align: top; overflow-wrap: anywhere; }
.totals tbody th, .settings th { color: var(--soft); min-width: 8rem; }
.totals thead th { font-weight: 600; min-width: 6rem; position: relative; padding-left: 1.05rem;
  overflow-wrap: break-word; }
.totals thead .disc { position: absolute; left: 0; top: 0.7rem; }
.totals tbody tr:last-child > *, .settings tr:last-child > * { border-bottom: 0; }
.totals .best { font-weight: 700; color: var(--accent); }
.settings th { width: 40%; }
.samples { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1rem; }
.sample { margin: 0; padding: 0.8rem 1rem; background: var(--page); border-radius: 0.5rem; max-height: 26rem; overflow: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 0.85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas,
  "DejaVu Sans Mono", monospace; }
@media print {
  body { max-width: none; background: #fff; }
  .card, .chart { break-inside: avoid; }
  .tabs, .theme { display: none; }
  .run[hidden] { display: block !important; }
}
)css";

constexpr const char* chart_rules = R"css(
.chart { display: grid; grid-template-columns: max-content minmax(0, 1fr); column-gap: 0.45rem;
  font-size: 0.8rem; container-type: inline-size; position: relative; }
.legend, .note, .y-label { grid-column: 1 / -1; }
.legend { display: flex; flex-wrap: wrap; align-items: center; gap: 0.1rem 0.3rem; margin: 0 0 0.5rem -0.4rem; }
.legend span { color: var(--soft); margin: 0 0.2rem 0 0.4rem; }
.legend button { border-color: transparent; background: none; padding: 0.1rem 0.4rem; display: flex; align-items: center;
  gap: 0.35rem; border-radius: 0.35rem; overflow-wrap: anywhere; text-align: left; }
.legend button:hover { background: var(--grid); }
.legend button[aria-pressed="false"] { opacity: 0.4; text-decoration: line-through; }
.swatch { flex: none; width: 1.1rem; height: 0; border-top: 0.2rem solid var(--color); border-radius: 1px; }
.swatch.faint { opacity: 0.4; border-top-width: 0.35rem; }
.swatch.dashed { border-top-style: dashed; }
.swatch.dots { border-top: 0; height: 0.55rem; width: 0.55rem; border-radius: 50%; background: var(--color); }
.swatch.disc { display: inline-block; border: 0; height: 0.65rem; width: 0.65rem; border-radius: 50%;
  background: var(--color); margin-right: 0.4rem; }
.swatch.disc.dashed { background: none; border: 0.15rem solid var(--color); }
.y-label, .x-label { color: var(--soft); }
.y-label::before { content: "↑ "; }
.x-label { grid-column: 1 / -1; text-align: right; }
.x-label::after { content: " →"; }
.y-label { margin-bottom: 0.45rem; }
.y-ticks { position: relative; width: calc(var(--ticks) + 0.15rem); font-variant-numeric: tabular-nums; grid-column: 1; }
.y-ticks span { position: absolute; right: 0; transform: translateY(50%); line-height: 1; white-space: nowrap; }
.x-ticks { position: relative; height: 1.5rem; grid-column: 2; font-variant-numeric: tabular-nums; }
.x-ticks span { position: absolute; top: 0.25rem; transform: translateX(-50%); white-space: nowrap; }
@container (max-width: 26rem) { .x-ticks .odd { display: none; } }
.plot { position: relative; height: var(--height); grid-column: 2; border-bottom: 1px solid var(--soft); cursor: crosshair; touch-action: pan-y; }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: hidden; display: block; }
.plot svg > * { vector-effect: non-scaling-stroke; }
.grid { stroke: var(--grid); stroke-width: 1; }
.mark { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 3 3; }
.mark-label { position: absolute; font-size: 0.92em; color: var(--soft); background: var(--card); padding: 0 0.2rem;
  line-height: 1.3; pointer-events: none; white-space: nowrap; }
.mark-label.over { right: 0.3rem; transform: translateY(-0.15rem); }
.mark-label.under { right: 0.3rem; transform: translateY(calc(100% + 0.15rem)); }
.mark-label.upright { top: 0; transform: translateX(0.2rem); }
.mark-label.left { transform: translateX(calc(-100% - 0.2rem)); }
.line { fill: none; stroke: var(--color); stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
.line.faint { stroke-width: 1; opacity: 0.3; }
.dashed:not(.swatch) { stroke-dasharray: 7 5; }
.line.dots { stroke-width: 1.4; }
.markers { fill: none; stroke: var(--color); stroke-width: 7; stroke-linecap: round; }
.bars { fill: var(--color); fill-opacity: 0.22; stroke: var(--color); stroke-width: 1.8; }
.bin { fill: transparent; }
.bin:hover { fill: var(--text); fill-opacity: 0.07; }
.off { display: none; }
.dim { opacity: 0.15; }
.panels { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1.2rem; }
@media (max-width: 60rem) { .panels { grid-template-columns: minmax(0, 1fr); } }
.cursor { position: absolute; top: 0; bottom: 0; width: 1px; background: var(--text); opacity: 0.5; pointer-events: none; }
.tip { position: fixed; z-index: 9; pointer-events: none; background: var(--text); color: var(--page); padding: 0.4rem 0.65rem;
  border-radius: 0.45rem; font-size: 0.8rem; line-height: 1.45; white-space: pre; max-width: 92vw; overflow: hidden;
  font-variant-numeric: tabular-nums; box-shadow: 0 3px 14px #0004; }
)css";

constexpr const char* heat_rules = R"css(
.heat caption { text-align: left; color: var(--soft); font-size: 0.82rem; padding: 0 0 0.3rem 2px; }
.heat { border-spacing: 2px; border-collapse: separate; margin-left: -2px; width: 100%; }
.heat th { font-weight: 400; color: var(--soft); padding: 0.15rem 0.4rem; white-space: nowrap; font-size: 0.82rem; }
.heat td { text-align: center; padding: 0.35rem 0.3rem; border-radius: 0.25rem; min-width: 2.6rem; font-size: 0.82rem;
  white-space: nowrap; }
.heat .empty { color: var(--soft); }
.heats { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 1.2rem; }
.heats + .heats { margin-top: 1.2rem; }
.maps { display: grid; grid-template-columns: minmax(8rem, 15rem) minmax(0, 40rem) minmax(14rem, 1fr); gap: 1.4rem; }
@media (max-width: 75rem) { .maps { grid-template-columns: minmax(8rem, 13rem) minmax(0, 1fr); }
  .map-read { grid-column: 1 / -1; } }
@media (max-width: 46rem) { .maps { grid-template-columns: minmax(0, 1fr); } .map-side { max-width: 24rem; } }
.map-thumbs { display: grid; gap: 0.3rem; align-items: center; }
.map-thumbs span { color: var(--soft); font-size: 0.75rem; text-align: center; line-height: 1.1; }
.map-thumbs button { padding: 0; border-radius: 0.3rem; overflow: hidden; aspect-ratio: 1; min-width: 0; border-width: 2px;
  line-height: 0; }
.map-thumbs button[aria-pressed="true"] { border-color: var(--warn); }
.map-thumbs canvas { width: 100%; height: 100%; image-rendering: pixelated; }
.map-shade { font-size: 0.82rem; margin-top: 0.8rem; }
.map-legend { display: flex; align-items: center; gap: 0.4rem; color: var(--soft); margin-top: 0.3rem; }
.map-legend i { flex: 1; height: 0.7rem; border-radius: 0.2rem; background: linear-gradient(90deg, var(--s0), var(--s1),
  var(--s2), var(--s3), var(--s4), var(--s5), var(--s6), var(--s7), var(--s8), var(--s9), var(--s10)); }
.map-main canvas { display: block; width: 100%; cursor: crosshair; touch-action: pan-y; }
.map-value { margin: 0 0 0.6rem; min-height: 3em; font-size: 0.9rem; }
.map-value b { font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.map-value code, .map-tokens { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.map-value code { background: var(--page); padding: 0.05rem 0.35rem; border-radius: 0.25rem; }
.map-tokens { font-size: 0.95rem; line-height: 1.75; overflow-wrap: anywhere; white-space: pre-wrap; }
.map-tokens span { padding: 0.12rem 0.05rem; border-radius: 0.15rem; }
.map-tokens .query { outline: 2px solid var(--warn); outline-offset: -1px; }
.map-tokens .masked { opacity: 0.35; }
)css";

std::string shade_rules() {
  std::string css;
  for (int i = 0; i <= 10; ++i) {
    const std::string n = std::to_string(i);
    css += ".s" + n + " { background: var(--s" + n + "); color: var(--t" + (i < 6 ? "0" : "1") + "); }\n";
  }
  return css;
}

}  // namespace

std::string report_style() {
  const std::string light = light_theme, dark = dark_theme;
  // Things of the categorical or ordered palette carry both colours inline, as --l and --d.
  const std::string colored = "[style*='--l:'] { --color: var(";
  return ":root {" + light + "}\n@media (prefers-color-scheme: dark) { :root:not([data-theme='light']) {" +
         dark + "} }\n:root[data-theme='dark'] {" + dark + "}\n" + colored + "--l); }\n" +
         "@media (prefers-color-scheme: dark) { :root:not([data-theme='light']) " + colored + "--d); } }\n" +
         ":root[data-theme='dark'] " + colored + "--d); }\n" + page_rules + chart_rules + heat_rules +
         shade_rules();
}

}  // namespace vitrine::nn::report
