"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const slider = byId("step"), choice = byId("run"), play = byId("play");
  let timer = null;

  const shown = () => document.querySelector(`.run[data-run="${choice.value}"]`);
  const run = () => data[Number(choice.value)];
  const y = (element) => Number(element.dataset.y);

  // An arrow is there as soon as the box that it points to.
  function arrive(path) {
    const ends = path.getAttribute("d").match(/-?[0-9.]+ -?[0-9.]+$/)[0].split(" ");
    return Number(ends[1]) - 9;
  }

  // What each slot of a ring holds after the rows so far: its newest arrival, and whether an Await
  // has waited for it.
  function state(signals, element, depth, until) {
    const slots = Array.from({ length: depth }, () => ({ rank: -1, awaited: false, now: false }));
    for (const [at, arrives, name, rank] of signals) {
      if (at > until || name !== element || rank < 0) continue;
      const slot = slots[rank % depth];
      if (arrives && rank >= slot.rank) Object.assign(slot, { rank, awaited: false });
      if (!arrives && rank === slot.rank) slot.awaited = true;
      slot.now = at === until;
    }
    return slots;
  }

  function draw() {
    const { rows, signals, rings } = run(), step = Number(slider.value);
    const until = step ? rows[step - 1] : -1;
    byId("at").value = `step ${step} of ${rows.length}`;
    const area = shown();
    for (const box of area.querySelectorAll(".lanes a")) {
      box.classList.toggle("later", y(box) > until);
      box.classList.toggle("now", y(box) === until);
    }
    for (const path of area.querySelectorAll(".arrow")) {
      path.classList.toggle("later", arrive(path) > until + 1);
    }
    for (const bond of area.querySelectorAll(".bond")) {
      bond.classList.toggle("later", Number(bond.getAttribute("y1")) - 9 > until + 1);
    }
    const made = rings.map(([element, depth]) => {
      const row = document.createElement("div"), name = document.createElement("code");
      row.className = "ringrow";
      row.dataset.element = element;
      name.textContent = element;
      row.append(name);
      for (const slot of state(signals, element, depth, until)) {
        const cell = document.createElement("span");
        const word = slot.rank < 0 ? "empty" : slot.awaited ? "awaited" : "arrived";
        cell.className = `slot ${word}${slot.now ? " now" : ""}`;
        cell.textContent = slot.rank < 0 ? "\u2013" : String(slot.rank);
        cell.title = slot.rank < 0 ? "no arrival yet" : `arrival ${slot.rank}, ${word}`;
        row.append(cell);
      }
      return row;
    });
    area.querySelector(".rings").replaceChildren(...made);
    const now = area.querySelector(".lanes a.now"), scroll = area.querySelector(".scroll");
    if (now && scroll.scrollHeight > scroll.clientHeight) {
      const box = now.getBoundingClientRect(), frame = scroll.getBoundingClientRect();
      scroll.scrollTop += box.top - frame.top - frame.height / 2;
    }
  }
  function to(step) {
    slider.value = Math.max(0, Math.min(run().rows.length, step));
    draw();
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.setAttribute("aria-pressed", "false");
  }
  function choose() {
    for (const one of document.querySelectorAll(".run")) one.hidden = one !== shown();
    slider.max = run().rows.length;
    to(run().rows.length);
  }
  byId("start").addEventListener("click", () => { stop(); to(0); });
  byId("back").addEventListener("click", () => { stop(); to(Number(slider.value) - 1); });
  byId("next").addEventListener("click", () => { stop(); to(Number(slider.value) + 1); });
  byId("end").addEventListener("click", () => { stop(); to(run().rows.length); });
  slider.addEventListener("input", () => { stop(); draw(); });
  choice.addEventListener("change", () => { stop(); choose(); });
  play.addEventListener("click", () => {
    if (timer !== null) { stop(); return; }
    if (Number(slider.value) >= run().rows.length) to(0);
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      if (Number(slider.value) >= run().rows.length) stop();
      else to(Number(slider.value) + 1);
    }, 350);
  });
  choose();
})();
