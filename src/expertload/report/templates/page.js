// The slider reads the library's counts and intervals; only shares and products are worked out here.
(() => {
  const data = JSON.parse(document.getElementById("numbers").textContent);
  const by = (id) => document.getElementById(id);
  const all = (query) => [...document.querySelectorAll(query)];
  const slider = by("stop");
  const inputs = { expert: by("expert-accuracy"), volume: by("volume"), minutes: by("minutes") };
  const kept = data.models.map((model) => model.start);
  let current = 0;

  // ---------------------------------------------------------------- numbers

  function at(model, stop) {
    const total = model.accepted[0];
    const accepted = model.accepted[stop];
    const errors = model.errors[stop];
    const delegated = total - accepted;
    return {
      threshold: model.threshold[stop],
      total,
      accepted,
      delegated,
      errors,
      load: delegated / total,
      accuracy: accepted > 0 ? 1 - errors / accepted : null,
      low: accepted > 0 ? model.low[stop] : null,
      high: accepted > 0 ? model.high[stop] : null,
      ...netErrors(model, stop, total),
      allErrors: model.errors[0],
    };
  }

  // Experts whose answers are known err too: what they get wrong is not spared.
  function netErrors(model, stop, total) {
    if (!model.team) return { team: null, spared: model.errors[0] - model.errors[stop], remaining: model.errors[stop] };
    const remaining = Number((total * (1 - model.team[stop])).toFixed(6));
    return { team: model.team[stop], spared: model.errors[0] - remaining, remaining };
  }

  const assumed = (input, fallback, scale) =>
    input.value !== "" && input.validity.valid ? Number(input.value) / scale : fallback;

  function outlook(point) {
    const expert = assumed(inputs.expert, data.expertAccuracy, 100);
    const volume = assumed(inputs.volume, data.volume, 1);
    const minutes = assumed(inputs.minutes, data.minutes, 1);
    return {
      team: point.team ?? (point.accepted - point.errors + expert * point.delegated) / point.total,
      hours: (volume * point.load * minutes) / 60,
      allHours: (volume * minutes) / 60,
    };
  }

  // ---------------------------------------------------------------- words

  function percent(share) {
    const number = 100 * share;
    const hides = (text) => number !== 0 && number !== 100 && !(Number(text) > 0 && Number(text) < 100);
    let decimals = 1;
    while (decimals < 9 && hides(number.toFixed(decimals))) decimals += 1;
    return `${Number(number.toFixed(decimals))} %`;
  }

  const grouped = (text) => text.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

  function count(number) {
    if (Number.isInteger(number)) return grouped(String(number));
    const decimals = Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2;
    const [whole, rest] = number.toFixed(decimals).split(".");
    return grouped(whole) + (rest ? `.${rest}` : "");
  }

  function digits(threshold) {
    let places = 4;
    const rounded = () => Number(threshold.toPrecision(places));
    // A smaller number would accept more cases, which a promise says nothing about.
    while (places < 17 && (rounded() < threshold || (rounded() === 1 && threshold !== 1))) places += 1;
    return String(rounded());
  }

  function inWords(point) {
    if (point.accuracy === null) return "Everything is delegated: all cases go to experts";
    return (
      `Threshold ${digits(point.threshold)}: ${percent(point.load)} of cases to experts, ` +
      `${percent(point.accuracy)} accuracy, ${percent(point.low)} to ${percent(point.high)}`
    );
  }

  // Two thresholds that differ never read the same.
  function apartFrom(threshold, other) {
    let places = 4;
    const text = (value) => String(Number(value.toPrecision(places)));
    const isUnclear = () => text(threshold) === text(other) || Number(text(threshold)) < threshold;
    while (places < 17 && isUnclear()) places += 1;
    return places === 4 ? digits(threshold) : text(threshold);
  }

  // Stops go from loose to strict, and where a certified stretch ends there is one.
  function standing(model, stop) {
    const here = model.threshold[stop];
    if (here === null) return "Nothing is decided automatically: there is nothing to certify.";
    if (model.certified[stop]) return "This threshold is certified.";
    const [looser, stricter] = [model.certified.lastIndexOf(1, stop), model.certified.indexOf(1, stop)];
    const name = (found) => apartFrom(model.threshold[found], here);
    if (looser < 0 && stricter < 0) return "Not certified: no threshold is.";
    if (looser < 0) return `Not certified: the loosest certified threshold is ${name(stricter)}.`;
    if (stricter < 0) return `Not certified: the strictest certified threshold is ${name(looser)}.`;
    return `Not certified: the nearest certified are ${name(looser)} and ${name(stricter)}.`;
  }

  const tables = partTables(data.tables, data.models, { percent, count });

  // ---------------------------------------------------------------- drawing

  const along = ([start, end], share) => start + share * (end - start);
  const inside = (share) => Math.min(1, Math.max(0, share));

  function show(id, value, text) {
    by(id).value = value === null ? "" : String(value);
    by(id).textContent = value === null ? "none" : text(value);
  }

  function showNumbers(point) {
    show("threshold", point.threshold, digits);
    by("threshold").title = point.threshold === null ? "" : String(point.threshold);
    show("load", point.load, percent);
    by("delegated").textContent = `${count(point.delegated)} of ${count(point.total)} cases; ${percent(1 - point.load)} automated`;
    show("accuracy", point.accuracy, percent);
    by("interval-text").hidden = point.accuracy === null;
    show("low", point.low, percent);
    show("high", point.high, percent);
    show("spared", point.spared, count);
    show("all-errors", point.allErrors, count);
    show("remaining", point.remaining, count);
    const { team, hours, allHours } = outlook(point);
    show("team", team, percent);
    show("hours", hours, count);
    show("all-hours", allHours, count);
  }

  function placeMarker(point) {
    const [low, high] = data.accuracy;
    const x = along(data.frame.x, point.load);
    const y = along(data.frame.y, point.accuracy === null ? 0 : inside((point.accuracy - low) / (high - low)));
    by("dot").setAttribute("cx", x);
    by("dot").setAttribute("cy", y);
    by("dot").classList.toggle("hollow", point.accuracy === null || point.accuracy < low);
    by("guide").setAttribute("x1", x);
    by("guide").setAttribute("x2", x);
    by("guide").setAttribute("y1", y);
  }

  function placeThreshold(model, point) {
    const [low, high] = model.histogram;
    const share = point.threshold === null ? 1 : inside((point.threshold - low) / (high - low));
    for (const line of all(`[data-model="${current}"] line.threshold`)) {
      line.setAttribute("x1", along(data.strip, share));
      line.setAttribute("x2", along(data.strip, share));
    }
  }

  function moveTables(model, point, stop) {
    for (const now of all(`[data-model="${current}"] data.now`)) {
      now.value = point.threshold === null ? "" : String(point.threshold);
      now.textContent = point.threshold === null ? "that delegates everything" : digits(point.threshold);
    }
    tables.move(model.tables, stop);
  }

  function update() {
    const model = data.models[current];
    const stop = Number(slider.value);
    const point = at(model, stop);
    kept[current] = stop;
    const verdict = standing(model, stop);
    slider.setAttribute("aria-valuetext", `${inWords(point)}. ${verdict}`);
    by("standing").textContent = verdict;
    by("standing").className = model.certified[stop] ? "certified" : point.threshold === null ? "none" : "";
    showNumbers(point);
    placeMarker(point);
    placeThreshold(model, point);
    moveTables(model, point, stop);
    for (const button of all(`.marks[data-model="${current}"] button`)) {
      button.setAttribute("aria-current", String(Number(button.dataset.stop) === stop));
    }
  }

  function choose(index) {
    current = index;
    for (const part of all("[data-model]")) part.hidden = Number(part.dataset.model) !== index;
    for (const curve of all("[data-curve]")) {
      const chosen = Number(curve.dataset.curve) === index;
      curve.classList.toggle("chosen", chosen);
      if (chosen) curve.parentNode.append(curve); // drawn last, so drawn on top
    }
    slider.max = data.models[index].accepted.length - 1;
    slider.value = kept[index];
    update();
  }

  // ---------------------------------------------------------------- what readers do

  // Numbers alone, in full: names, which could be read as formulas, stay out of the file.
  function curveAsCsv(model) {
    const lines = ["threshold,expert_load,accuracy,low,high,accepted,errors,certified"];
    model.threshold.forEach((threshold, stop) => {
      if (threshold === null) return;
      const { load, accuracy, low, high, accepted, errors } = at(model, stop);
      const certified = model.certified[stop];
      lines.push([threshold, load, accuracy, low, high, accepted, errors, certified].join(","));
    });
    return `${lines.join("\r\n")}\r\n`;
  }

  function download() {
    const model = data.models[current];
    const name = model.name.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([curveAsCsv(model)], { type: "text/csv" }));
    link.download = `coc-${name || "curve"}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function nearestStop(load) {
    const { accepted } = data.models[current];
    const wanted = accepted[0] * (1 - load);
    let best = 0;
    accepted.forEach((value, stop) => {
      if (Math.abs(value - wanted) < Math.abs(accepted[best] - wanted)) best = stop;
    });
    return best;
  }

  function follow(event) {
    const box = by("coc").getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * by("coc").viewBox.baseVal.width;
    const [start, end] = data.frame.x;
    slider.value = nearestStop(inside((x - start) / (end - start)));
    update();
  }

  function jump(event) {
    const leap = { PageUp: 1, PageDown: -1 }[event.key];
    if (!leap) return;
    event.preventDefault();
    slider.value = Number(slider.value) + leap * Math.max(1, Math.round(slider.max / 20));
    update();
  }

  function turn() {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const theme = document.documentElement.dataset.theme || (isDark ? "dark" : "light");
    setTheme(theme === "dark" ? "light" : "dark");
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    by("theme").setAttribute("aria-pressed", String(theme === "dark"));
  }

  slider.addEventListener("input", update);
  slider.addEventListener("keydown", jump);
  by("coc").addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse") by("coc").setPointerCapture(event.pointerId);
    follow(event);
  });
  by("coc").addEventListener("pointermove", (event) => event.buttons && follow(event));
  for (const button of all("[data-stop]")) {
    button.addEventListener("click", () => {
      slider.value = button.dataset.stop;
      update();
    });
  }
  for (const radio of all('input[name="model"]')) {
    radio.addEventListener("change", () => choose(Number(radio.value)));
  }
  for (const input of Object.values(inputs)) input.addEventListener("input", update);
  by("download").addEventListener("click", download);
  by("theme").addEventListener("click", turn);
  by("theme").setAttribute(
    "aria-pressed",
    String(matchMedia("(prefers-color-scheme: dark)").matches),
  );

  document.documentElement.classList.add("has-script");
  choose(0);
})();
