// Makes the pages live: streams, relative times, keys, theme, copying, filters that apply as one types. Without it they work, too.
"use strict";
(() => {
  const root = document.documentElement, body = document.body, main = document.getElementById("page");
  const content = document.getElementById("content"), lost = document.querySelector(".lost");
  root.classList.add("js");

  // times
  const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  function lasting(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    for (let at = 0; at < units.length; at++) {
      const [length, unit] = units[at];
      if (whole >= length || unit === "s") {
        const first = Math.floor(whole / length), next = units[at + 1];
        const rest = next ? Math.floor((whole % length) / next[0]) : 0;
        return `${first} ${unit}` + (rest && first < 10 ? ` ${rest} ${next[1]}` : "");
      }
    }
  }
  function relate(time) {
    const moment = Date.parse(time.getAttribute("datetime")), away = (moment - Date.now()) / 1000;
    const said = time.classList.contains("since") ? lasting(-away)
      : Math.abs(away) < 1 ? "now" : away > 0 ? `in ${lasting(away)}` : `${lasting(-away)} ago`;
    if (time.textContent !== said) time.textContent = said;
    if (!time.title || time.dataset.local !== time.getAttribute("datetime")) {
      time.dataset.local = time.getAttribute("datetime");
      time.title = zone.format(moment);
    }
  }
  const relateAll = () => document.querySelectorAll("time[datetime]").forEach(relate);

  // the stream of this page: its own address, as events
  const button = document.querySelector("[data-do=live]");
  let stream = null, paused = new URLSearchParams(location.search).get("paused") === "1", lostAt = 0, again = 0;
  function show(state, word) {
    if (!button) return;
    button.dataset.state = state;
    button.lastElementChild.textContent = word;
    button.setAttribute("aria-pressed", String(paused));
  }
  function complain(text) {
    lostAt ||= Date.now();
    main.classList.add("stale");
    lost.hidden = false;
    lost.textContent = `${text} What you see is of ${new Date(lostAt).toLocaleTimeString([], { hourCycle: "h23" })}.`;
    show("lost", "Lost");
  }
  function recover() {
    lostAt = 0;
    main.classList.remove("stale");
    lost.hidden = true;
    show("on", "Live");
  }
  function open() {
    if (stream || paused || document.hidden || searching() || !("live" in body.dataset)) return;
    stream = new EventSource(location.href);
    stream.addEventListener("open", recover);
    stream.addEventListener("page", (event) => { recover(); take(JSON.parse(event.data)); });
    stream.addEventListener("trouble", (event) => complain(JSON.parse(event.data)));
    stream.addEventListener("gone", (event) => { complain(JSON.parse(event.data)); close(); });
    stream.addEventListener("error", () => {
      complain("The connection is lost.");
      if (stream?.readyState === EventSource.CLOSED) {
        close();
        clearTimeout(again);
        again = setTimeout(open, 3000);
      }
    });
  }
  function close() {
    stream?.close();
    stream = null;
  }
  function withPause(address) { // the URL says whether a page is paused, and so do its links
    const url = new URL(address, location.href);
    if (paused) url.searchParams.set("paused", "1"); else url.searchParams.delete("paused");
    return url.pathname + url.search + url.hash;
  }
  function toggle() {
    paused = !paused;
    history.replaceState(null, "", withPause(location.href));
    for (const link of document.querySelectorAll('a[href^="/"]')) link.setAttribute("href", withPause(link.href));
    if (paused) { close(); show("paused", "Paused"); } else { open(); }
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);

  // A table with data-hold takes changes of its rows, but new rows only when asked, so that nothing moves under the finger.
  let waiting = null, swapped = Promise.resolve();
  function take(html) {
    if (content.querySelector(":scope details.ask[open], :scope input[name=typed]:focus")) return; // someone is deciding
    const fresh = new DOMParser().parseFromString(html, "text/html").body;
    waiting = null;
    for (const table of fresh.querySelectorAll("table[data-hold][id]")) {
      const old = document.getElementById(table.id), body = old?.tBodies[0];
      if (!body?.rows.length) continue;
      const known = new Set([...body.rows].map((row) => row.id));
      const news = [...table.tBodies[0].rows].filter((row) => row.id && !known.has(row.id));
      if (!news.length) continue;
      waiting = html;
      const shown = new Map([...table.tBodies[0].rows].map((row) => [row.id, row]));
      const rows = [...body.rows].map((row) => shown.get(row.id) ?? gone(row));
      table.tBodies[0].replaceChildren(...rows);
      const more = document.createElement("button");
      more.type = "button";
      more.className = "fresh";
      more.id = `${table.id}-fresh`;
      more.dataset.do = "fresh";
      more.textContent = `${news.length} new`;
      table.before(more);
    }
    swap(fresh.innerHTML);
  }
  function gone(row) { // it stays, grayed, until one asks for the new rows
    const left = row.cloneNode(true);
    left.classList.add("off");
    for (const time of left.querySelectorAll("time.since")) time.replaceWith(time.textContent);
    return left;
  }
  function swap(html) {
    const checked = [...content.querySelectorAll("input[data-select]:checked")].map((box) => box.value);
    const on = content.querySelector("tr.on")?.id;
    swapped = htmx.swap({ target: content, text: html, swap: "innerMorph", sourceElement: content }).then(() => {
      for (const box of content.querySelectorAll("input[data-select]")) box.checked = checked.includes(box.value);
      if (on) document.getElementById(on)?.classList.add("on");
      settled();
    });
  }
  function settled() {
    relateAll();
    count();
    drawAll();
    searchOn();
    content.dispatchEvent(new CustomEvent("lockwork:shown", { bubbles: true }));
  }
  document.addEventListener("htmx:after:swap", relateAll);

  // charts: stacked bars, over which one drags to see the jobs of a stretch of time
  function resolved(name) { // light-dark() is resolved only where it is used
    const probe = document.createElement("i");
    probe.hidden = true;
    probe.style.color = `var(${name})`;
    body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }
  function draw(place) {
    const data = JSON.parse(place.dataset.plot), colors = { done: "--b-done", retried: "--b-retrying", dead: "--b-dead" };
    const sums = data.columns.map((_, from) => data.x.map((_, at) => data.columns.slice(from).reduce((sum, column) => sum + column[at], 0)));
    const width = place.clientWidth, line = resolved("--line"), muted = resolved("--muted");
    if (place.chart && place.chart.width === width && place.look === line) { place.data = data; place.chart.setData([data.x, ...sums], false); zoom(place); return; }
    place.chart?.destroy();
    place.replaceChildren();
    place.look = line;
    place.data = data;
    const font = "11px system-ui, sans-serif";
    const say = (chart) => {
      const at = chart.cursor.idx, words = place.data, range = place.range;
      const meant = words.x.map((moment) => !range || (moment >= range[0] && moment <= range[1]));
      place.closest("section").querySelectorAll("[data-part]").forEach((part, number) => {
        const column = words.columns[number];
        part.textContent = (at == null ? column.reduce((sum, each, on) => sum + (meant[on] ? each : 0), 0) : column[at]).toLocaleString();
      });
      const when = place.closest("section").querySelector("[data-when]");
      when.textContent = at == null ? (range ? span(range, words.seconds) : when.dataset.when) : new Date(words.x[at] * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
    };
    place.chart = new uPlot({
      width, height: place.clientHeight, legend: { show: false }, padding: [8, 16, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] }, x: { range: (_, least, most) => [least - data.seconds / 2, most + data.seconds / 2] } },
      axes: [
        { stroke: muted, font, grid: { show: false }, ticks: { show: false }, size: 24, space: 64, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880].map((count) => count * 60).filter((step) => step >= data.seconds), values: (_, marks) => marks.map((mark) => new Date(mark * 1000).toLocaleString([], data.seconds > 60 && data.x.length > 24 ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })) },
        { stroke: muted, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 44, splits: (_, __, ___, most) => splits(most), values: (_, marks) => marks.map((mark) => mark.toLocaleString()) },
      ],
      series: [{}, ...data.names.map((name) => ({ fill: resolved(colors[name]), stroke: "transparent", width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.8, 160], radius: 0 }) }))],
      hooks: {
        setCursor: [say],
        setScale: [(chart, key) => { if (key === "x") say(chart); }],
        draw: [(chart) => mark(chart, place.data)],
        setSelect: [(chart) => {
          if (chart.select.width < 4) return;
          const ends = [chart.select.left, chart.select.left + chart.select.width].map((left) => place.data.x[chart.posToIdx(left)]);
          chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          brush(place, ends);
        }],
      },
    }, [data.x, ...sums], place);
    zoom(place);
  }
  function mark(chart, { marks, seconds }) { // where something happened, as the list below the chart says
    const { ctx, bbox } = chart, colors = { blocked: "--retrying", running: "--running" };
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const [at, kind] of marks) {
      const x = Math.round(chart.valToPos(at - seconds / 2, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = resolved(colors[kind] ?? "--muted");
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const size = 4 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(x - size, bbox.top);
      ctx.lineTo(x + size, bbox.top);
      ctx.lineTo(x, bbox.top + size * 1.5);
      ctx.fill();
    }
    ctx.restore();
  }
  const clock = (moment) => new Date(moment * 1000).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const span = (range, seconds) => `${clock(range[0])} to ${clock(range[1] + seconds)}`;
  function brush(place, range) { // the URL says which range was chosen
    const url = new URL(location.href);
    for (const [name, at] of [["from", 0], ["to", 1]]) { if (range) url.searchParams.set(name, range[at]); else url.searchParams.delete(name); }
    history.replaceState(null, "", url);
    place.range = range;
    zoom(place);
  }
  function zoom(place) {
    const data = place.data, given = new URLSearchParams(location.search), first = data.x[0], last = data.x[data.x.length - 1];
    const ends = [Number(given.get("from")), Number(given.get("to"))], range = ends[0] && ends[1] >= ends[0] && ends[1] >= first && ends[0] <= last ? ends : null;
    place.range = range;
    place.chart.setScale("x", range ? { min: range[0], max: range[1] } : { min: first, max: last });
    const bar = place.closest("section").querySelector("[data-brush]"), link = new URL(place.dataset.jobs, location.href), now = Date.now() / 1000;
    bar.hidden = !range;
    if (range) {
      link.searchParams.set("since", `${Math.max(1, Math.round(now - range[0]))}s`);
      link.searchParams.set("until", `${Math.max(0, Math.round(now - range[1] - data.seconds))}s`);
      bar.querySelector("a").setAttribute("href", withPause(link.href));
    }
  }
  function splits(most) {
    const rough = most / 4, power = 10 ** Math.floor(Math.log10(rough)), step = Math.max(1, [1, 2, 5, 10].find((each) => each * power >= rough) * power);
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
  }
  const drawAll = () => { if (window.uPlot) document.querySelectorAll("[data-plot]").forEach(draw); };
  addEventListener("resize", drawAll);
  document.addEventListener("lockwork:theme", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  // selection, for what is done to many
  function count() {
    const boxes = [...content.querySelectorAll("input[data-select]")], many = boxes.filter((box) => box.checked).length;
    for (const place of content.querySelectorAll("[data-selected]")) place.textContent = many.toLocaleString();
    for (const bar of content.querySelectorAll("[data-bulk]")) bar.classList.toggle("some", many > 0);
    const all = content.querySelector("input[data-select-all]");
    if (all) { all.checked = many > 0 && many === boxes.length; all.indeterminate = many > 0 && many < boxes.length; }
  }
  content.addEventListener("change", (event) => {
    if (event.target.matches("input[data-select-all]")) {
      for (const box of content.querySelectorAll("input[data-select]")) box.checked = event.target.checked;
    }
    count();
  });

  // filters apply as one types
  let typing = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-filter]");
    if (!form) return;
    clearTimeout(typing);
    typing = setTimeout(() => refilter(form), 300);
  });
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-filter]");
    if (form && event.target.matches("select, [type=checkbox], [type=radio]")) { clearTimeout(typing); refilter(form); }
  });
  async function refilter(form) {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const url = withPause(`${form.getAttribute("action")}${query.size ? `?${query}` : ""}`);
    const answer = await fetch(url, { headers: { "HX-Request": "true", Accept: "text/html" } });
    if (!answer.ok) { location.href = url; return; }
    history.replaceState(null, "", url);
    close();
    swap(await answer.text());
    open();
  }

  // a search that has found nothing yet goes on by itself, page by page, until it finds something or is stopped
  let stopped = paused, step = 0;
  const searching = () => !stopped && content.querySelector("[data-search-on]");
  function searchOn() {
    const place = content.querySelector("[data-search-on]"), button = place?.querySelector("[data-do=search]");
    clearTimeout(step);
    if (!place) { open(); return; }
    button.hidden = stopped;
    place.querySelector("a[rel=next]").hidden = !stopped;
    if (stopped || document.hidden) return;
    close();
    step = setTimeout(async () => {
      const url = withPause(place.querySelector("a[rel=next]").href);
      const answer = await fetch(url, { headers: { "HX-Request": "true", Accept: "text/html" } }).catch(() => null);
      const html = answer?.ok ? await answer.text() : null;
      if (!searching()) return;
      if (html === null) { stopped = true; searchOn(); complain("The search was cut short."); return; }
      history.replaceState(null, "", url);
      swap(html);
    }, 10);
  }
  document.addEventListener("visibilitychange", searchOn);

  // keys
  let chord = 0;
  const rows = () => [...content.querySelectorAll("tbody tr")].filter((row) => row.querySelector("a") && row.offsetParent);
  function move(step) {
    const all = rows(), at = all.findIndex((row) => row.classList.contains("on"));
    const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
    all[at]?.classList.remove("on");
    next?.classList.add("on");
    next?.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.matches("input, textarea, select, [contenteditable]");
    if (event.key === "Escape") {
      if (field) event.target.blur();
      for (const each of document.querySelectorAll("details.ask[open], .tabs details[open]")) each.open = false;
      return;
    }
    if (field && !(event.target.type === "checkbox" && event.key !== " ")) return;
    if (document.querySelector("dialog[open]")) return;
    const on = content.querySelector("tr.on");
    if (chord && Date.now() - chord < 1500) {
      chord = 0;
      const link = [...document.querySelectorAll(".rail a[data-key]")].find((each) => each.dataset.key === event.key);
      if (link) { event.preventDefault(); location.href = link.href; }
      return;
    }
    const keys = {
      "/": () => document.querySelector(".search input").focus(),
      "?": () => document.getElementById("keys").showModal(),
      g: () => { chord = Date.now(); },
      j: () => move(1),
      k: () => move(-1),
      x: () => { const box = on?.querySelector("input[data-select]"); if (box) { box.checked = !box.checked; count(); } },
      p: toggle,
      t: theme,
    };
    if (event.key === "Enter" && on && !event.target.closest("a, button, summary")) { location.href = on.querySelector("a").href; return; }
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });

  // buttons
  const announce = document.querySelector(".announce");
  function theme() {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    document.cookie = `lockwork_theme=${root.dataset.theme}; path=${new URL(document.querySelector(".brand").href).pathname}; max-age=31536000; samesite=lax`;
    document.dispatchEvent(new CustomEvent("lockwork:theme"));
  }
  async function copy(button) {
    try { await navigator.clipboard.writeText(button.dataset.copy); } catch {
      const area = document.createElement("textarea"); // the clipboard is only for https and localhost
      area.value = button.dataset.copy;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    announce.textContent = "Copied";
    button.title = "Copied";
    setTimeout(() => { button.title = "Copy"; announce.textContent = ""; }, 1500);
  }
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-do], [data-copy]");
    for (const each of document.querySelectorAll("details.ask[open], .tabs details[open]")) {
      if (!each.contains(event.target)) each.open = false;
    }
    if (!pressed) return;
    if (pressed.dataset.copy !== undefined) copy(pressed);
    else if (pressed.dataset.do === "theme") theme();
    else if (pressed.dataset.do === "keys") document.getElementById("keys").showModal();
    else if (pressed.dataset.do === "live") toggle();
    else if (pressed.dataset.do === "search") { stopped = true; swapped.then(searchOn, searchOn); }
    else if (pressed.dataset.do === "unbrush") brush(content.querySelector("[data-plot]"), null);
    else if (pressed.dataset.do === "unselect") { for (const box of content.querySelectorAll("input[data-select]")) box.checked = false; count(); }
    else if (pressed.dataset.do === "fresh" && waiting) { const html = waiting; waiting = null; swap(html); }
  });

  relateAll();
  setInterval(relateAll, 1000);
  count();
  drawAll();
  if (paused) show("paused", "Paused");
  searchOn();
  open();
})();
