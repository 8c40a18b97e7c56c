// Every page works by its forms alone; this is for comfort. What fails here is tried again.
"use strict";
const root = document.documentElement;
const kept = (name, value) => {
  try { return value ? localStorage["desk." + name] = value : localStorage["desk." + name]; } catch { }
};
root.classList.add("has-script");
if (kept("theme")) root.dataset.theme = kept("theme");
if (kept("keys") === "off") root.classList.add("keys-off");

const find = (query) => document.querySelector(query);
const all = (query, within = document) => [...within.querySelectorAll(query)];

function theme() {
  const button = find("#theme");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const show = () => button.setAttribute("aria-pressed", isDark());
  button.onclick = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept("theme", root.dataset.theme);
    show();
  };
  show();
}

function localTimes(within) {
  const write = (query, text) => { for (const each of all(query, within)) each.textContent = text(each); };
  const short = { timeStyle: "short" };
  write("time", (each) => new Date(each.dateTime).toLocaleString([], { dateStyle: "medium", ...short }));
  write("[data-hour]", (each) => each.textContent.replace(/^[\d:]+( UTC)?/, new Date(each.dataset.hour).toLocaleTimeString([], short)));
  write(".zone", () => Intl.DateTimeFormat().resolvedOptions().timeZone);
}

function keys() {
  const box = find("#keys");
  if (box) {
    box.checked = !root.classList.contains("keys-off");
    box.onchange = () => {
      root.classList.toggle("keys-off", !box.checked);
      kept("keys", box.checked ? "on" : "off");
    };
  }
  const slide = { c: ["contrast", 1], x: ["contrast", -1], l: ["light", 1], k: ["light", -1] };
  document.addEventListener("keydown", (event) => {
    if (root.classList.contains("keys-off") || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches("input:not([type=checkbox], [type=radio], [type=range]), select")) return;
    const key = event.key === "=" ? "+" : event.key.toLowerCase();
    if (key === "/" && find("#find")) return stop(event, () => find("#find").focus());
    const way = { arrowdown: 1, arrowup: -1 }[key];
    if (way) return walk(event, way);
    if (slide[key] && find("#" + slide[key][0])) return stop(event, () => nudge(...slide[key]));
    const target = key !== "enter" && all(":not([inert]) > [data-key]").find((each) => each.dataset.key === key && each.offsetParent);
    if (target) stop(event, () => { target.click(); if (target.tagName === "SUMMARY") target.focus(); });
  });
}

function stop(event, work) { event.preventDefault(); work(); }

function nudge(name, way) {
  const range = find("#" + name);
  range.stepUp(2 * way);
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
  const list = find("#classes"), status = find("#found");
  const hint = status.textContent;
  let first = null;
  const look = () => {
    const wanted = plain(box.value.trim());
    const rank = names.map((name) => name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3);
    const order = buttons.map((_, i) => i).sort((a, b) => rank[a] - rank[b] || a - b);
    first?.classList.remove("first");
    list.append(...order.map((i) => { buttons[i].hidden = rank[i] > 2; return buttons[i]; }));
    const n = rank.filter((r) => r < 3).length;
    first = wanted && n ? buttons[order[0]] : null;
    first?.classList.add("first");
    status.textContent = first ? `${n} found. Enter answers with ${first.value}.` : wanted ? "No class has this in its name." : hint;
  };
  box.oninput = look;
  box.onkeydown = (event) => {
    if (event.key === "Enter") stop(event, () => first?.click());
    else if (event.key === "ArrowDown") walk(event, 1);
    else if (event.key === "Escape") stop(event, () => { box.value = ""; look(); box.blur(); });
  };
  if (!root.classList.contains("keys-off") && matchMedia("(pointer: fine)").matches) box.focus();
}

function viewer() {
  const image = find("#image"), frame = find("#frame");
  if (!image) return;
  let zoom = 0, turned = false;
  const [size, contrast, light, invert] = all("#size, #contrast, #light, #invert");
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
  image.onload = () => { image.classList.toggle("small", image.naturalWidth < 64); scale(0); };
  if (image.naturalWidth) image.onload();
  frame.addEventListener("wheel", (event) => {
    if (event.ctrlKey || zoom) stop(event, () => scale((zoom || fit()) * (event.deltaY < 0 ? 1.15 : 1 / 1.15)));
  }, { passive: false });
  frame.onpointermove = (event) => {
    if (event.buttons === 1 && event.pointerType === "mouse") frame.scrollBy(-event.movementX, -event.movementY);
  };
  frame.ondragstart = () => false;
}

function clock() {
  const form = find("#clock");
  if (!form) return;
  const whole = +form.dataset.whole, shown = find("#left"), status = find("#clock-notice");
  let end = Date.now() + 1000 * form.dataset.left, busy = false, asked = Date.now();
  for (const name of ["keydown", "pointerdown", "wheel"]) addEventListener(name, () => { busy = true; });
  const more = async () => {
    asked = Date.now(); busy = false;
    try {
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "application/json" } });
      const { seconds } = await answer.json();
      end = Date.now() + 1000 * (seconds || 0);
      return seconds ? "You have more time." : "Your time was over.";
    } catch { return "The desk did not answer."; }
  };
  form.onsubmit = (event) => stop(event, async () => { status.textContent = await more(); });
  const tick = () => {
    const left = Math.max(0, Math.round((end - Date.now()) / 1000));
    shown.textContent = left ? `${left / 60 | 0}:${`0${left % 60}`.slice(-2)}` : "over: others may have it now";
    shown.classList.toggle("soon", left < Math.min(120, whole / 4));
    if (left === 60) status.textContent = "One minute is left for this case.";
    if (left && busy && Date.now() - asked > whole * 1000 / 5) more();
  };
  setInterval(tick, 1000);
  tick();
}

function ahead() {
  for (const each of all("[data-gone]")) setTimeout(() => { each.inert = true; }, 1000 * each.dataset.gone);
  const next = find("[data-next]");
  if (next) new Image().src = next.dataset.next;
}

function polling() {
  const idle = find("[data-poll]"), live = find("[data-live]");
  if (idle) setInterval(() => ask(idle.dataset.poll, async (answer) => {
    if ((await answer.json()).waiting) location.replace("/review");
  }), 4000);
  if (live) setInterval(() => document.hidden || ask(location.href, async (answer) => {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (live.contains(document.activeElement)) return;
    const fresh = page.getElementById(live.id);
    localTimes(fresh);
    live.replaceChildren(...fresh.childNodes);
  }), 1000 * live.dataset.live);
}

// What a page shows by itself must not look fresh if it is not.
async function ask(address, use) {
  let works = false;
  try {
    const answer = await fetch(address);
    if (answer.redirected) location.reload();
    else if (answer.ok) { await use(answer); works = true; }
  } catch { }
  find("#gone").hidden = works;
}

document.addEventListener("DOMContentLoaded", () => {
  theme(); localTimes(document); keys(); finder(); viewer(); clock(); ahead(); polling();
  const shown = performance.now();
  document.addEventListener("submit", (event) => {
    // What is pressed twice must not answer the next case too, which nobody has seen yet.
    if (event.target.id === "answer" && event.timeStamp - shown < 300) stop(event, () => {
      find("#too-soon").textContent = "Not taken: this case had only just appeared. Look, and answer again.";
    });
    if (!event.defaultPrevented) setTimeout(() => { for (const button of all("button", event.target)) button.disabled = true; });
  });
  addEventListener("pageshow", () => { for (const button of all("button:disabled")) button.disabled = false; });
});
