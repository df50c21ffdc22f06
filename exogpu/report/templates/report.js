"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const element = (name, text = "", className = "") => {
    const made = document.createElement(name);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const marks = new Map();
  for (const mark of document.querySelectorAll(".mark")) marks.set(Number(mark.dataset.mark), mark);
  const panel = byId("panel"), arcs = byId("arcs");
  const SHOWN = 12;
  let pinned = null;

  // --- which rows concern a mark ----------------------------------------------------------

  const synchronises = (number) => String(number) in data.uses;
  const touching = new Map();
  data.rows.forEach((row, at) => {
    for (const place of [row.first, row.second])
      if (place[0] >= 0) touching.set(place[0], (touching.get(place[0]) || new Set()).add(at));
  });
  const rowsOf = (number) =>
    synchronises(number) ? data.uses[number].rows : [...(touching.get(number) || [])];

  // --- arcs -------------------------------------------------------------------------------

  const lineOf = (place) => place[1] || (place[0] >= 0 ? data.marks[place[0]].line : 0);
  const height = (line) => {
    const item = byId(`L${line}`);
    return item ? item.offsetTop - arcs.parentElement.querySelector("ol").offsetTop + 9.5 : null;
  };
  function arc(from, to, className) {
    const y1 = height(from), y2 = height(to);
    if (y1 === null || y2 === null) return;
    const far = Math.min(76, 16 + Math.abs(y2 - y1) / 5), x = 80;
    const loop = from === to ? 7 : 0;
    arcs.append(svg("path", {
      d: `M${x} ${y1 - loop}C${x - far} ${y1 - loop} ${x - far} ${y2 + loop} ${x - 2} ${y2 + loop}`,
      class: `arc ${className}`,
    }));
    arcs.append(svg("path", {
      d: `M${x + 2} ${y2 + loop}l-7 -3.5v7z`, class: `tip ${className}`,
    }));
  }
  function clear() {
    arcs.replaceChildren();
    for (const mark of marks.values()) mark.classList.remove("on", "bad");
    for (const row of document.querySelectorAll("#table tr.chosen")) row.classList.remove("chosen");
  }
  function draw(rows) {
    clear();
    for (const at of rows) {
      const row = data.rows[at], broken = row.answer !== "holds";
      const ends = [row.first, row.second];
      const chains = row.chains.length ? row.chains : [[]];
      chains.forEach((chain, number) => {
        const places = [row.first, ...chain, row.second].filter((place) => place[1]);
        const name = broken ? "bad" : number ? "alternative" : "";
        for (let i = 1; i < places.length; i++) {
          const [before, after] = [lineOf(places[i - 1]), lineOf(places[i])];
          if (before !== after || places.length === 2) arc(before, after, name);
        }
        for (const place of [...ends, ...chain]) {
          const mark = marks.get(place[0]);
          if (mark) mark.classList.add("on", ...(broken ? ["bad"] : []));
        }
      });
    }
  }

  // --- the panel --------------------------------------------------------------------------

  const WORDS = {
    read: "read", write: "written", update: "read and written", signal: "signalled",
    alloc: "declared",
  };
  const ENDS = { read: "read", write: "write", update: "update", alloc: "end", signal: "signal" };
  function lineLink(line) {
    const link = element("a", `line ${line}`);
    link.href = `#L${line}`;
    return link;
  }
  function describe(at) {
    const row = data.rows[at], item = element("li");
    item.append(element("span", row.kind, row.answer === "holds" ? "kind" : "kind bad"));
    const show = element("button", row.name, "link");
    show.type = "button";
    show.addEventListener("click", () => choose([at]));
    item.append(show, ` ${row.plain}`);
    row.chains.forEach((chain, number) => {
      const steps = element("span", number ? "or: " : "", "steps");
      [row.first, ...chain, row.second].filter((place) => place[1]).forEach((place, i) => {
        if (i) steps.append(" → ");
        const mark = data.marks[place[0]];
        const role = place[5] || (mark && ENDS[mark.kind]) || "";
        const link = lineLink(lineOf(place));
        link.title = place[4] ? `${place[2]}, by ${place[4]}` : place[2];
        steps.append(role ? `${role} ` : "", link);
        if (place[3]) steps.append(` (${place[3]})`);
      });
      item.append(steps);
    });
    return item;
  }
  function explain(number) {
    const mark = data.marks[number], rows = rowsOf(number);
    const title = element("h3");
    title.append(element("code", synchronises(number) ? mark.text : mark.variable), " ");
    const note = element("span", "", "soft");
    note.append(synchronises(number) ? "" : `${WORDS[mark.kind]} at `, lineLink(mark.line));
    title.append(note);
    let said;
    if (synchronises(number)) {
      said = data.uses[number].why;
    } else if (rows.length) {
      said = `In ${rows.length} obligation${rows.length > 1 ? "s" : ""}.`;
    } else {
      said = data.proof ? "In no obligation: nothing conflicts with it."
        : data.rows.length ? "In none of the counterexamples." : "There is no proof to show.";
    }
    const list = element("ul");
    list.append(...rows.slice(0, SHOWN).map(describe));
    const parts = [title, element("p", said), list];
    if (rows.length > SHOWN) parts.push(element("p", `and ${rows.length - SHOWN} more`, "soft"));
    panel.replaceChildren(...parts);
  }
  function choose(rows) {
    unpin();
    draw(rows);
    panel.replaceChildren(Object.assign(element("ul"), {}));
    panel.firstChild.append(...rows.slice(0, SHOWN).map(describe));
    for (const at of rows) {
      const row = document.querySelector(`#table tr[data-row="${at}"]`);
      if (row) row.classList.add("chosen");
    }
    const first = rows.map((at) => data.rows[at].first[1] || data.rows[at].second[1])[0];
    const line = first && byId(`L${first}`);
    if (line) line.scrollIntoView({ block: "center" });
  }
  function unpin() {
    if (pinned !== null) marks.get(pinned).setAttribute("aria-pressed", "false");
    pinned = null;
  }
  function toggle(number) {
    const again = pinned === number;
    unpin();
    clear();
    if (again) return;
    pinned = number;
    marks.get(number).setAttribute("aria-pressed", "true");
    explain(number);
    draw(rowsOf(number));
  }
  for (const [number, mark] of marks) {
    mark.addEventListener("click", () => toggle(number));
    mark.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        toggle(number);
      }
    });
    for (const kind of ["focus", "mouseenter"])
      mark.addEventListener(kind, () => { if (pinned === null) explain(number); });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { unpin(); clear(); }
  });

  // --- the table --------------------------------------------------------------------------

  const table = byId("table");
  if (table) {
    const body = table.tBodies[0], rows = [...body.rows];
    const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const filter = () => {
      const wanted = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        const shown = ["kind", "variable", "answer"].every(
          (name) => !byId(name).value || row.dataset[name] === byId(name).value)
          && wanted.every((word) => words.get(row).includes(word));
        row.hidden = !shown;
        count += shown;
      }
      byId("count").value = `${count} of ${rows.length}`;
    };
    byId("filters").addEventListener("input", filter);
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    const value = (row, column) => {
      const cell = row.cells[column];
      return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
    };
    const compare = (a, b) =>
      typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
    for (const button of table.tHead.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        const head = button.parentElement, column = Number(button.dataset.column);
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows.sort((a, b) => (up ? 1 : -1) * compare(value(a, column), value(b, column)));
        body.append(...rows);
      });
    }
    body.addEventListener("click", (event) => {
      if (event.target.classList.contains("show"))
        choose([Number(event.target.closest("tr").dataset.row)]);
    });
  }

  // --- barriers ---------------------------------------------------------------------------

  const trips = byId("trips");
  if (trips) {
    trips.addEventListener("input", () => {
      for (const ring of document.querySelectorAll(".ring"))
        ring.hidden = ring.dataset.trips !== trips.value;
    });
  }
})();
