// Makes the pages live: streams, relative times, keys, theme, copying, filters that apply as one types. Without it they work, too.
"use strict";
(() => {
  const root = document.documentElement, body = document.body, main = document.getElementById("page");
  const content = document.getElementById("content"), lost = document.querySelector(".lost");
  root.classList.add("js");

  const digits = new Intl.NumberFormat("en-US"), number = (count) => digits.format(count); // as the server writes them

  // times
  const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  function age(seconds) { // formats as `rough_age` of words.py
    const whole = Math.max(0, Math.floor(seconds));
    for (let at = 0; at < units.length; at++) {
      const [length, unit] = units[at];
      if (whole >= length || unit === "s") {
        const first = Math.floor(whole / length), next = units[at + 1];
        const rest = next ? Math.floor((whole % length) / next[0]) : 0;
        return `${number(first)} ${unit}` + (rest && first < 10 ? ` ${rest} ${next[1]}` : "");
      }
    }
  }
  const hour = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }, day = { month: "short", day: "numeric" };
  function clock(moment, after) {
    const same = after && new Date(moment).toDateString() === new Date(after).toDateString();
    return new Date(moment).toLocaleString([], same ? hour : { ...day, ...hour });
  }
  function relate(time) {
    const moment = Date.parse(time.getAttribute("datetime")), away = (moment - Date.now()) / 1000;
    const said = time.classList.contains("clock") ? clock(moment, Date.parse(time.dataset.after)) : time.classList.contains("since") ? age(-away)
      : Math.abs(away) < 1 ? "now" : away > 0 ? `in ${age(away)}` : `${age(-away)} ago`;
    if (time.textContent !== said) time.textContent = said;
    if (!time.title || time.dataset.local !== time.getAttribute("datetime")) {
      time.dataset.local = time.getAttribute("datetime");
      time.title = zone.format(moment);
    }
  }
  const relateAll = () => document.querySelectorAll("time[datetime]").forEach(relate);

  // the stream of this page: its own address, as events; without a place for one, the page asks again and again
  const button = document.querySelector("[data-do=live]");
  let stream = null, paused = new URLSearchParams(location.search).get("paused") === "1", lostAt = 0, polling = 0;
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
    if (stream || polling || gathered || paused || document.hidden || searching() || !("live" in body.dataset)) return;
    stream = new EventSource(location.href);
    stream.addEventListener("open", recover);
    stream.addEventListener("page", (event) => { recover(); take(JSON.parse(event.data)); });
    stream.addEventListener("trouble", (event) => complain(JSON.parse(event.data)));
    stream.addEventListener("gone", (event) => { complain(JSON.parse(event.data)); close(); });
    stream.addEventListener("error", () => {
      if (stream?.readyState !== EventSource.CLOSED) { complain("The connection is lost."); return; }
      close(); // it was refused: a browser has six connections to a host, and our streams take four of them
      poll(0);
    });
  }
  function close() {
    stream?.close();
    stream = null;
    clearTimeout(polling);
    polling = 0;
  }
  const asPart = { headers: { "HX-Request": "true", Accept: "text/html" } };
  const withoutCsrf = (html) => html.replace(/name="csrf" value="[^"]*"/g, "");
  function poll(count, before = "") {
    const mine = polling = setTimeout(async () => {
      const answer = await fetch(location.href, asPart).catch(() => null);
      const html = answer?.ok && !answer.redirected ? await answer.text().catch(() => null) : null;
      if (polling !== mine) return;
      if (answer?.redirected) { close(); complain("Your login has ended or changed: reload the page."); return; }
      if (html !== null) {
        recover();
        if (withoutCsrf(html) !== before) take(html);
      } else complain(answer?.status === 404 ? "It does not exist any more." : "The connection is lost.");
      if (count < 9) { poll(count + 1, html === null ? before : withoutCsrf(html)); return; }
      close();
      open(); // other pages may have been closed
    }, count || before ? 1000 * Number(body.dataset.live) : 0);
  }
  function withPause(address) { // the URL and its links contain whether the page is paused
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
  function gone(row) { // it stays, grayed, until the user loads the new rows; its state may have changed
    const left = row.cloneNode(true), state = left.querySelector(".state");
    if (left.classList.contains("off")) return left;
    left.classList.add("off");
    for (const time of left.querySelectorAll("time.since")) time.remove();
    if (state) state.textContent = `was ${state.textContent}`;
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

  // charts: stacked bars; dragging over them, or the keys, choose a part of the time that the page shows
  const colors = { done: "--b-done", retried: "--b-retrying", dead: "--b-dead", blocked: "--retrying", running: "--running" };
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
    const data = place.data = JSON.parse(place.dataset.plot), width = place.clientWidth, line = resolved("--line");
    const sums = data.columns.map((_, from) => data.x.map((_, at) => data.columns.slice(from).reduce((sum, column) => sum + column[at], 0)));
    if (place.chart && place.chart.width === width && place.look === line) { place.chart.setData([data.x, ...sums]); say(place); return; }
    place.chart?.destroy();
    place.replaceChildren();
    place.look = line;
    const font = "11px system-ui, sans-serif", axis = { stroke: resolved("--muted"), font, ticks: { show: false } };
    let dragged = false; // by the pointer; else it has pressed one bar
    const isLong = (least, most) => most - least > 2 * 86400;
    place.chart = new uPlot({
      width, height: place.clientHeight, legend: { show: false }, padding: [8, 16, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] }, x: { range: (_, least, most) => [least - place.data.seconds / 2, most + place.data.seconds / 2] } },
      axes: [
        { ...axis, grid: { show: false }, size: 24, space: 64, values: (_, marks) => marks.map((mark) => new Date(mark * 1000).toLocaleString([], marks[1] - marks[0] >= 86400 ? day : hour)),
          incrs: (_, __, least, most) => (isLong(least, most) ? [1, 2, 3, 7].map((days) => days * 86400) : [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * 60).filter((step) => step >= place.data.seconds)) },
        { ...axis, grid: { stroke: line, width: 1 }, size: (_, values) => Math.max(44, 16 + widest(values ?? [], font)), splits: (_, __, ___, most) => splits(most), values: (_, marks) => marks.map(number) },
      ],
      series: [{}, ...data.names.map((name) => ({ fill: resolved(colors[name]), stroke: "transparent", width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.8, 160], radius: 0 }) }))],
      hooks: {
        setCursor: [() => say(place)],
        draw: [(chart) => { shade(chart, place.data); mark(chart, place.data); }],
        ready: [(chart) => {
          chart.over.addEventListener("mousedown", () => { dragged = false; });
          chart.over.addEventListener("click", () => { if (!dragged && chart.cursor.idx != null) choose(place, place.data.x[chart.cursor.idx]); });
        }],
        setSelect: [(chart) => {
          if (chart.select.width < 4) return;
          dragged = true;
          const [begin, end] = [chart.select.left, chart.select.left + chart.select.width].map((left) => place.data.x[chart.posToIdx(left)]);
          chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          choose(place, begin, end);
        }],
      },
    }, [data.x, ...sums], place);
    say(place);
  }
  const ruler = document.createElement("canvas").getContext("2d");
  function widest(texts, font) {
    ruler.font = font;
    return Math.ceil(Math.max(0, ...texts.map((text) => ruler.measureText(text).width)));
  }
  function say(place) { // the counts of the bar under the pointer, else of the whole time
    const at = place.chart?.cursor.idx, head = place.previousElementSibling;
    head.querySelectorAll("[data-part]").forEach((part, column) => { part.textContent = at == null ? part.dataset.part : number(place.data.columns[column][at]); });
    head.querySelector("[data-when]").textContent = at == null ? "" : clock(place.data.x[at] * 1000);
  }
  function shade(chart, { brush, seconds }) { // the bars that are not chosen
    if (!brush) return;
    const { ctx, bbox } = chart;
    const [begin, end] = [brush[0] - seconds / 2, brush[1] + seconds / 2].map((at) => Math.round(chart.valToPos(at, "x", true)));
    ctx.save();
    ctx.fillStyle = resolved("--bg");
    ctx.globalAlpha = 0.7;
    ctx.fillRect(bbox.left, bbox.top, begin - bbox.left, bbox.height);
    ctx.fillRect(end, bbox.top, bbox.left + bbox.width - end, bbox.height);
    ctx.globalAlpha = 1;
    ctx.fillStyle = resolved("--accent");
    for (const edge of [begin, end]) ctx.fillRect(edge - devicePixelRatio / 2, bbox.top, devicePixelRatio, bbox.height);
    ctx.restore();
  }
  function mark(chart, { marks, seconds }) { // draw the events of the list below the chart
    const { ctx, bbox } = chart;
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
  function choose(place, begin, end = begin) { brush(Math.min(begin, end), Math.max(begin, end) + place.data.seconds); }
  async function brush(begin, end) { // the URL and all links contain the chosen time
    const url = new URL(location.href);
    for (const [name, at] of [["from", begin], ["to", end]]) { if (at) url.searchParams.set(name, at); else url.searchParams.delete(name); }
    if (!await visit(url.href)) return;
    for (const link of document.querySelectorAll('.rail a[href^="/"], .tabs a[href^="/"]')) {
      const target = new URL(link.href);
      for (const name of ["from", "to"]) { if (url.searchParams.has(name)) target.searchParams.set(name, url.searchParams.get(name)); else target.searchParams.delete(name); }
      link.setAttribute("href", target.pathname + target.search + target.hash);
    }
  }
  content.addEventListener("keydown", (event) => {
    const place = event.target.closest("[data-plot]"), chart = place?.chart;
    if (!chart || event.ctrlKey || event.metaKey || event.altKey) return;
    const { x, brush: chosen, seconds, names, columns } = place.data, last = x.length - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last };
    if (event.key === "Enter" && place.at !== undefined) choose(place, place.anchor, place.at);
    else if (event.key === "Escape" && (chosen || place.at !== undefined)) { if (chosen) brush(); }
    else if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    if (!(event.key in steps)) { unpoint(place); return; }
    const known = x.indexOf(place.at ?? chosen?.[1]);
    const at = known < 0 ? last : Math.min(last, Math.max(0, known + steps[event.key]));
    place.anchor = event.shiftKey ? (place.anchor ?? x[known < 0 ? last : known]) : x[at];
    place.at = x[at];
    const [begin, end] = [Math.min(place.at, place.anchor) - seconds / 2, Math.max(place.at, place.anchor) + seconds / 2].map((moment) => chart.valToPos(moment, "x"));
    chart.setCursor({ left: chart.valToPos(place.at, "x"), top: 0 });
    chart.setSelect({ left: begin, top: 0, width: end - begin, height: chart.over.clientHeight }, false);
    announce.textContent = `${clock(place.at * 1000)}: ${names.map((name, column) => `${number(columns[column][at])} ${name}`).join(", ")}`;
  });
  content.addEventListener("focusout", (event) => { const place = event.target.closest("[data-plot]"); if (place?.chart) unpoint(place); });
  function unpoint(place) {
    place.at = place.anchor = undefined;
    place.chart.setCursor({ left: -10, top: -10 });
    place.chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }
  function splits(most) {
    const rough = most / 4, power = 10 ** Math.floor(Math.log10(rough)), step = Math.max(1, [1, 2, 5, 10].find((each) => each * power >= rough) * power);
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
  }
  const drawAll = () => { if (window.uPlot) document.querySelectorAll("[data-plot]").forEach(draw); };
  addEventListener("resize", drawAll);
  document.addEventListener("lockwork:theme", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  // selection of rows, for bulk actions
  function count() {
    const boxes = [...content.querySelectorAll("input[data-select]")], many = boxes.filter((box) => box.checked).length;
    for (const place of content.querySelectorAll("[data-selected]")) place.textContent = number(many);
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
    await visit(withPause(`${form.getAttribute("action")}${query.size ? `?${query}` : ""}`));
  }
  async function visit(url) { // shows this page with another query
    const answer = await fetch(url, asPart).catch(() => null);
    if (!answer?.ok || answer.redirected) { location.href = url; return false; }
    history.replaceState(null, "", url);
    close();
    gathered = stopped = false;
    swap(await answer.text());
    open();
    return true;
  }

  // a search continues step by step until the page is full or the user stops it
  let stopped = paused, step = 0, gathered = false;
  const searching = () => !stopped && content.querySelector("[data-search-on]");
  function searchOn() {
    const place = content.querySelector("[data-search-on]"), button = place?.querySelector("[data-do=search]");
    clearTimeout(step);
    if (!place) { open(); return; }
    if (button) button.hidden = stopped;
    place.querySelector("a[rel=next]").hidden = !stopped;
    if (stopped || document.hidden) { if (!paused) show("off", "Static"); return; }
    close();
    show("off", "Reading");
    step = setTimeout(async () => {
      const url = withPause(place.querySelector("a[rel=next]").href);
      const answer = await fetch(url, asPart).catch(() => null);
      const html = answer?.ok && !answer.redirected ? await answer.text() : null;
      if (!searching()) return;
      if (html === null) { stopped = true; searchOn(); complain("The search was cut short."); return; }
      if (!gather(html)) { history.replaceState(null, "", url); swap(html); }
    }, 10);
  }
  function gather(html) { // add the hits of a step to the page, exact matches first
    const body = document.getElementById("jobs")?.tBodies[0], place = content.querySelector("[data-search-on]");
    if (!body || !place) return false;
    gathered = true;
    const fresh = new DOMParser().parseFromString(html, "text/html"), news = [...(fresh.getElementById("jobs")?.tBodies[0].rows ?? [])];
    for (const row of news) {
      if (document.getElementById(row.id)) continue;
      body.insertBefore(row, row.dataset.exact === undefined ? null : [...body.rows].find((each) => each.dataset.exact === undefined) ?? null);
    }
    if (body.rows.length >= Number(place.dataset.searchOn)) stopped = true;
    const next = fresh.querySelector("[data-search-on], .pager");
    if (next) place.replaceWith(next); else place.remove();
    settled();
    if (!content.querySelector("[data-search-on]")) show("off", "Static");
    return true;
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
    else if (pressed.dataset.do === "unbrush" && !event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); brush(); }
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
