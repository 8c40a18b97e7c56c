// Every page works by its forms alone; this is for comfort. What fails here is tried again.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = {
    get: (name) => { try { return localStorage.getItem("desk." + name); } catch { return null; } },
    set: (name, value) => { try { localStorage.setItem("desk." + name, value); } catch { } },
  };
  root.classList.add("has-script");
  if (kept.get("theme")) root.dataset.theme = kept.get("theme");
  if (kept.get("keys") === "off") root.classList.add("keys-off");

  const find = (query, within = document) => within.querySelector(query);
  const all = (query, within = document) => [...within.querySelectorAll(query)];

  function theme() {
    const button = find("#theme");
    const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const show = () => button.setAttribute("aria-pressed", isDark());
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      kept.set("theme", root.dataset.theme);
      show();
    });
    show();
  }

  function localTimes(within) {
    const form = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
    for (const time of all("time", within)) time.textContent = form.format(new Date(time.dateTime));
  }


  function keys() {
    const box = find("#keys");
    if (box) {
      box.checked = !root.classList.contains("keys-off");
      box.addEventListener("change", () => {
        root.classList.toggle("keys-off", !box.checked);
        kept.set("keys", box.checked ? "on" : "off");
      });
    }
    const slide = { c: ["contrast", 1], x: ["contrast", -1], l: ["light", 1], k: ["light", -1] };
    document.addEventListener("keydown", (event) => {
      if (root.classList.contains("keys-off") || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      if (event.target.matches("input:not([type=checkbox], [type=radio], [type=range]), select")) return;
      const key = event.key === "=" ? "+" : event.key.toLowerCase();
      if (key === "/" && find("#find")) return stop(event, () => find("#find").focus());
      if (key === "arrowdown" || key === "arrowup") return walk(event, key === "arrowdown" ? 1 : -1);
      if (slide[key] && find("#" + slide[key][0])) return stop(event, () => nudge(...slide[key]));
      const target = key !== "enter" && all("[data-key]").find((each) => each.dataset.key === key && each.offsetParent);
      if (target) stop(event, () => { target.click(); if (target.tagName === "SUMMARY") target.focus(); });
    });
  }

  function stop(event, work) { event.preventDefault(); work(); }

  function nudge(name, way) {
    const range = find("#" + name);
    range[way > 0 ? "stepUp" : "stepDown"](2);
    range.dispatchEvent(new Event("input"));
  }

  function walk(event, way) {
    const buttons = all("#classes button:not([hidden])");
    if (!buttons.length || event.target.closest(".frame, .paper, [type=range], [type=radio]")) return;
    const at = buttons.indexOf(document.activeElement);
    stop(event, () => buttons[at < 0 ? 0 : (at + way + buttons.length) % buttons.length].focus());
  }


  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

  function finder() {
    const box = find("#find");
    if (!box) return;
    const buttons = all("#classes button");
    const names = buttons.map((button) => plain(button.value));
    const list = find("#classes"), said = find("#found");
    const hint = said.textContent;
    let first = null;
    const look = () => {
      const wanted = plain(box.value.trim());
      const rank = names.map((name) => name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3);
      const order = buttons.map((_, i) => i).sort((a, b) => rank[a] - rank[b] || a - b);
      if (first) first.classList.remove("first");
      list.append(...order.map((i) => { buttons[i].hidden = rank[i] > 2; return buttons[i]; }));
      const n = rank.filter((r) => r < 3).length;
      first = wanted && n ? buttons[order[0]] : null;
      if (first) first.classList.add("first");
      said.textContent = first ? `${n} found. Enter answers with ${first.value}.` : wanted ? "No class has this in its name." : hint;
    };
    box.addEventListener("input", look);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") stop(event, () => first && first.click());
      else if (event.key === "ArrowDown") walk(event, 1);
      else if (event.key === "Escape") stop(event, () => { box.value = ""; look(); box.blur(); });
    });
    if (!root.classList.contains("keys-off") && matchMedia("(pointer: fine)").matches) box.focus();
  }

  function viewer() {
    const image = find("#image"), frame = find("#frame");
    if (!image) return;
    let zoom = 0, turned = false;
    const contrast = find("#contrast"), light = find("#light"), invert = find("#invert"), size = find("#size");
    const fit = () => Math.min(frame.clientWidth / image.naturalWidth, frame.clientHeight / image.naturalHeight);
    const scale = (to) => {
      const halfX = frame.clientWidth / 2, halfY = frame.clientHeight / 2;
      const x = (frame.scrollLeft + halfX) / frame.scrollWidth, y = (frame.scrollTop + halfY) / frame.scrollHeight;
      zoom = to && Math.min(Math.max(to, 0.05), 64);
      image.classList.toggle("free", zoom > 0);
      frame.classList.toggle("grab", zoom > 0);
      image.style.width = zoom ? image.naturalWidth * zoom + "px" : "";
      size.textContent = Math.round(100 * (zoom || fit())) + " %";
      frame.scrollTo(x * frame.scrollWidth - halfX, y * frame.scrollHeight - halfY);
    };
    const paint = () => {
      invert.setAttribute("aria-pressed", turned);
      image.style.filter = `contrast(${contrast.value}%) brightness(${light.value}%) invert(${+turned})`;
    };
    const does = {
      larger: () => scale((zoom || fit()) * 1.4),
      smaller: () => scale((zoom || fit()) / 1.4),
      fit: () => scale(0),
      invert: () => { turned = !turned; paint(); },
      reset: () => { contrast.value = light.value = 100; turned = false; paint(); scale(0); },
    };
    for (const button of all("[data-do]")) button.onclick = does[button.dataset.do];
    contrast.oninput = light.oninput = paint;
    image.onload = () => {
      image.classList.toggle("small", image.naturalWidth < 64);
      scale(0);
    };
    if (image.naturalWidth) image.onload();
    frame.addEventListener("wheel", (event) => {
      if (event.ctrlKey || zoom) stop(event, () => scale((zoom || fit()) * (event.deltaY < 0 ? 1.15 : 1 / 1.15)));
    }, { passive: false });
    frame.addEventListener("pointermove", (event) => {
      if (event.buttons === 1 && event.pointerType === "mouse") frame.scrollBy(-event.movementX, -event.movementY);
    });
    frame.addEventListener("dragstart", (event) => event.preventDefault());
  }


  function clock() {
    const form = find("#clock");
    if (!form) return;
    const whole = Number(form.dataset.whole), shown = find("#left"), said = find("#clock-said");
    let end = performance.now() + 1000 * form.dataset.left, busy = false, asked = performance.now();
    for (const name of ["keydown", "pointerdown", "wheel"]) addEventListener(name, () => { busy = true; }, { passive: true });
    const more = async () => {
      asked = performance.now(); busy = false;
      try {
        const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "application/json" } });
        const { seconds } = await answer.json();
        end = performance.now() + 1000 * (seconds || 0);
      } catch { }
    };
    form.addEventListener("submit", (event) => stop(event, async () => { await more(); said.textContent = "You have more time."; }));
    const tick = () => {
      const left = Math.max(0, Math.round((end - performance.now()) / 1000));
      shown.textContent = left ? Math.floor(left / 60) + ":" + String(left % 60).padStart(2, "0") : "over: others may have it now";
      shown.classList.toggle("soon", left < Math.min(120, whole / 4));
      if (left === 60) said.textContent = "One minute is left for this case.";
      if (left && busy && performance.now() - asked > whole * 1000 / 5) more();
    };
    setInterval(tick, 1000);
    tick();
  }

  function ahead() {
    for (const each of all("[data-gone]")) setTimeout(() => { each.hidden = true; }, 1000 * each.dataset.gone);
    const next = find("[data-next]");
    if (next) new Image().src = next.dataset.next;
  }

  function polling() {
    const idle = find("[data-poll]");
    if (idle) setInterval(async () => {
      try { if ((await (await fetch(idle.dataset.poll)).json()).waiting) location.replace("/review"); } catch { }
    }, 4000);
    const live = find("[data-live]");
    if (live) setInterval(refresh, 1000 * live.dataset.live);
  }

  async function refresh() {
    if (document.hidden) return;
    try {
      const text = await (await fetch(location.href)).text();
      const page = new DOMParser().parseFromString(text, "text/html");
      for (const part of all("[data-live]")) {
        const fresh = page.getElementById(part.id);
        if (!fresh || part.contains(document.activeElement)) continue;
        localTimes(fresh);
        part.replaceChildren(...fresh.childNodes);
      }
    } catch { }
  }

  document.addEventListener("DOMContentLoaded", () => {
    theme(); localTimes(document); keys(); finder(); viewer(); clock(); ahead(); polling();
    document.addEventListener("submit", (event) => {
      // A key pressed twice must not answer the next case too.
      if (!event.defaultPrevented) setTimeout(() => { for (const button of all("button", event.target)) button.disabled = true; });
    });
    addEventListener("pageshow", () => { for (const button of all("button:disabled")) button.disabled = false; });
  });
})();
