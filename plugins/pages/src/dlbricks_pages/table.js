"use strict";
// Tables that can be sorted by their headings; long ones are filtered, and shown in parts. Rows
// stand in the page, or in a script beside it, from which a row is made when it is first shown.

const SHOWN = {{ rows }};
const WORTH_A_FILTER = 10;
const collator = new Intl.Collator("en", { numeric: true });

// A cell is its text, or [text, key, link, classes].
const textOf = (cell) => (typeof cell === "string" ? cell : cell[0]);
// A link names the signature of a model, which its text need not.
const wordsOf = (cell) =>
  typeof cell === "string" ? cell : `${cell[0]} ${(cell[2] ?? "").replace(/^.*\/|\.html$/g, "")}`;
const keyOf = (cell) => (typeof cell === "string" || (cell[1] ?? "") === "" ? textOf(cell) : cell[1]);

function make(name, properties = {}, ...children) {
  const found = Object.assign(document.createElement(name), properties);
  found.append(...children);
  return found;
}

class Rows {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.headings = [...table.tHead.rows[0].cells];
    this.every = table.dataset.rows === undefined
      ? [...this.body.rows].map((element) => ({ cells: [...element.cells].map(read), element }))
      : atlasRows.rows.map((places) =>
          ({ cells: places.map((place) => atlasRows.cells[place]), element: null }));
    this.left = this.every;
    this.start = 0;
    this.enhance();
    this.show();
  }

  enhance() {
    this.buttons = this.headings.map((heading, column) => {
      const button = make("button", { type: "button", textContent: heading.textContent });
      button.addEventListener("click", () =>
        this.sort(column, heading.getAttribute("aria-sort") === "ascending"));
      heading.replaceChildren(button);
      return button;
    });
    this.status = make("p", { className: "soft" });
    this.status.setAttribute("role", "status");
    const tools = make("div", { className: "tools" });
    if (this.every.length > WORTH_A_FILTER) tools.append(this.filterBox(), this.status);
    if (this.every.length > 1) tools.append(this.sorter());
    if (this.every.length > SHOWN) tools.append(...this.steps());
    if (tools.children.length) this.table.parentElement.before(tools);
  }

  filterBox() {
    this.box = make("input", { type: "search", autocomplete: "off" });
    this.box.addEventListener("input", () => this.filter(this.box.value));
    return make("label", {}, "Filter", this.box);
  }

  sorter() {
    const choice = make("select");
    choice.append(make("option", { textContent: "as they are", disabled: true, selected: true }));
    this.headings.forEach((heading, column) => {
      for (const [sign, down] of [["\u2191", ""], ["\u2193", "down"]]) {
        choice.append(make("option",
          { textContent: `${heading.textContent} ${sign}`, value: `${column} ${down}` }));
      }
    });
    choice.addEventListener("change", () => {
      const [column, down] = choice.value.split(" ");
      this.sort(Number(column), down === "down");
    });
    return make("label", { className: "sorter" }, "Sort by", choice);
  }

  steps() {
    this.back = make("button", { type: "button", textContent: "Previous" });
    this.on = make("button", { type: "button", textContent: "Next" });
    this.back.addEventListener("click", () => this.show(this.start - SHOWN));
    this.on.addEventListener("click", () => this.show(this.start + SHOWN));
    return [this.back, this.on];
  }

  sort(column, down) {
    const heading = this.headings[column];
    const isText = heading.classList.contains("text");
    const valued = this.every.map((row) => {
      const key = keyOf(row.cells[column]);
      const value = isText ? String(key) : Number(key);
      return { row, value, lacks: isText ? value === "" || value === "\u2013" : Number.isNaN(value) };
    });
    const order = isText ? collator.compare : (a, b) => a - b;
    // What is not known comes last, whatever the direction.
    valued.sort((a, b) =>
      a.lacks - b.lacks || (a.lacks ? 0 : (down ? -1 : 1) * order(a.value, b.value)));
    this.every = valued.map((each) => each.row);
    for (const each of this.headings) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    this.filter(this.box ? this.box.value : "");
  }

  filter(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => {
      row.words ??= row.cells.map(wordsOf).join("\n").toLowerCase();
      return words.every((word) => row.words.includes(word));
    };
    this.left = words.length ? this.every.filter(fits) : this.every;
    this.show(0);
  }

  show(start = 0) {
    this.start = start;
    const end = Math.min(start + SHOWN, this.left.length);
    this.body.replaceChildren(...this.left.slice(start, end).map((row) => this.elementOf(row)));
    const of = this.left.length.toLocaleString("en");
    this.status.textContent = this.left.length > SHOWN
      ? `Rows ${(start + 1).toLocaleString("en")} to ${end.toLocaleString("en")} of ${of}`
      : `${of} of ${this.every.length.toLocaleString("en")} rows`;
    if (this.on) {
      this.back.disabled = start === 0;
      this.on.disabled = end === this.left.length;
    }
  }

  elementOf(row) {
    row.element ??= make("tr", {}, ...row.cells.map((cell, column) => this.cellOf(cell, column)));
    return row.element;
  }

  cellOf(cell, column) {
    const [text, , link, marks] = typeof cell === "string" ? [cell] : cell;
    const heading = this.headings[column];
    const found = make(column ? "td" : "th");
    if (column) found.dataset.label = heading.textContent;
    else found.scope = "row";
    const isText = column > 0 && heading.classList.contains("text");
    found.className = [isText ? "text" : "", marks ?? ""].join(" ").trim();
    found.append(link ? make("a", { href: link, textContent: text }) : text);
    return found;
  }
}

function read(cell) {
  return [cell.textContent, cell.dataset.key ?? ""];
}

const tables = [...document.querySelectorAll("table.cards")].map((table) => new Rows(table));

// The part of an address after # is a filter: other pages lead to some of the rows.
function filterByAddress() {
  const found = tables.find((each) => each.box && each.table.dataset.rows !== undefined);
  const text = decodeURIComponent(location.hash.slice(1));
  if (found && text) {
    found.box.value = text;
    found.filter(text);
  }
}
addEventListener("hashchange", filterByAddress);
filterByAddress();
