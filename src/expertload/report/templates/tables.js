"use strict";
// Tables of groups and classes: they follow the slider, fold, and can be searched. The library's
// counts are in the page; only shares and Wilson's interval are worked out here.
const partTables = (tables, models, words) => {
  const FEW = 30;

  // Pairs of a stop and the value from there on become one value for each stop.
  function unfold(pairs, n) {
    const values = new Array(n);
    for (let i = 0; i < pairs.length; i += 2) values.fill(pairs[i + 1], pairs[i], n);
    return values;
  }

  function wilson(rate, n, z) {
    const spread = 1 + (z * z) / n;
    const centre = (rate + (z * z) / (2 * n)) / spread;
    const reach = (z / spread) * Math.sqrt((rate * (1 - rate)) / n + (z * z) / (4 * n * n));
    return [Math.max(0, centre - reach), Math.min(1, centre + reach)];
  }

  function series(table, row) {
    const read = (name) => table.moves[name] && unfold(table.moves[name][row], table.n);
    table.series[row] ??= {
      accepted: read("accepted"),
      errors: read("errors"),
      squares: read("squares"),
      counts: read("counts"),
    };
    return table.series[row];
  }

  function at(table, row, stop) {
    const { accepted, errors, squares, counts } = series(table, row);
    const mass = accepted[stop];
    const count = (counts ?? accepted)[stop];
    const rate = count > 0 ? 1 - errors[stop] / mass : null;
    const size = squares && count > 0 ? (mass * mass) / squares[stop] : mass;
    return {
      rate,
      interval: rate === null ? null : wilson(rate, size, table.moves.z),
      load: 1 - mass / accepted[0],
      isSmall: (count || (counts ?? accepted)[0]) < FEW,
    };
  }

  function put(element, value, text) {
    element.value = value === null ? "" : String(value);
    element.textContent = text;
  }

  function showRow(table, row, stop) {
    const part = at(table, row, stop);
    const cells = table.cells[row];
    put(cells.rate, part.rate, part.rate === null ? "none automatic" : words.percent(part.rate));
    cells.interval.textContent =
      part.rate === null ? "" : part.interval.map(words.percent).join(" to ");
    put(cells.load, part.load, words.percent(part.load));
    cells.automated.textContent = words.percent(1 - part.load);
    cells.few.hidden = !part.isSmall;
    cells.mark.toggleAttribute("hidden", part.rate === null);
    if (part.rate === null) return;
    const [low, high] = table.moves.strip;
    const x = (share) => 4 + 152 * Math.min(1, Math.max(0, (share - low) / (high - low)));
    cells.whisker.setAttribute("x1", x(part.interval[0]));
    cells.whisker.setAttribute("x2", x(part.interval[1]));
    cells.point.setAttribute("cx", x(part.rate));
  }

  function cellsOf(row) {
    const [rate, load] = row.querySelectorAll("data");
    return {
      row,
      rate,
      load,
      name: row.querySelector(".name").textContent.toLowerCase(),
      interval: row.querySelector(".right-rate small"),
      automated: row.querySelector(".automated"),
      few: row.querySelector(".few"),
      mark: row.querySelector("svg g"),
      whisker: row.querySelector(".whisker"),
      point: row.querySelector(".point"),
    };
  }

  const found = {};
  for (const model of models) {
    for (const number of model.tables) {
      const element = document.querySelector(`[data-table="${number}"]`);
      const cells = [...element.tBodies[0].rows].map(cellsOf);
      found[number] = { moves: tables[number], n: model.accepted.length, element, cells, series: [] };
    }
  }

  // Rows that nobody sees are brought up to date when they are shown. First all are asked, then all
  // are written: in turns, each question would make the browser lay out the table again.
  function refresh(table) {
    const seen = table.cells.map((cells) => cells.row.offsetParent !== null);
    seen.forEach((isSeen, row) => isSeen && showRow(table, row, table.stop));
  }

  function search(number) {
    const table = found[number];
    const wanted = document.querySelector(`[data-find="${number}"]`).value.trim().toLowerCase();
    let matches = 0;
    for (const { row, name } of table.cells) {
      const fits = wanted !== "" && name.includes(wanted);
      matches += fits;
      row.classList.toggle("found", fits);
    }
    table.element.classList.toggle("searched", wanted !== "");
    document.querySelector(`[data-found="${number}"]`).textContent =
      wanted === "" ? "" : `${words.count(matches)} of ${words.count(table.cells.length)}`;
    refresh(table);
  }

  function unfoldAll(number, button) {
    const isOpen = found[number].element.classList.toggle("open");
    button.setAttribute("aria-expanded", String(isOpen));
    button.textContent = isOpen
      ? "Show the least accurate"
      : `Show all ${words.count(found[number].cells.length)}`;
    refresh(found[number]);
  }

  for (const input of document.querySelectorAll("[data-find]")) {
    input.addEventListener("input", () => search(Number(input.dataset.find)));
  }
  for (const button of document.querySelectorAll("[data-unfold]")) {
    button.addEventListener("click", () => unfoldAll(Number(button.dataset.unfold), button));
  }

  return {
    move(numbers, stop) {
      for (const number of numbers) {
        found[number].stop = stop;
        refresh(found[number]);
      }
    },
  };
};
