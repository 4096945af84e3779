/* global all, themes, set_theme, tabs, choose_run, map_viewer, map_pair, add_tools */
const runs = JSON.parse(document.getElementById("data").textContent);
all(".maps").forEach(root => map_viewer(root, runs[root.dataset.run]));
all(".map-pair").forEach(root => map_pair(root, runs));
add_tools();
let stored = "auto";
try { stored = localStorage.getItem("vitrine-theme") ?? "auto"; } catch { /* as above */ }
set_theme(themes.includes(stored) ? stored : "auto");
if (tabs.length) choose_run(0);
