// SPDX-License-Identifier: LGPL-3.0-only
// A table of any length that can be sorted, searched and filtered. Only the visible rows exist as elements.

const HEIGHT = 36;
const MARGIN = 8;

// Columns are { key, title, kind, width, down, value | text, cell }. Rows are sorted by `value(row)`, a number, or `text(row)`.
// `names` is the key of the column with the row's header. `passing()` returns a filter, or null to show all rows. `words(row)` returns
// the text that is searched. `onSelect(rows)` is called with the rows shown.
class Grid {
  constructor(place, { label, columns, many, by, down = false, names, passing, words, onSelect, none }) {
    Object.assign(this, { columns, many, by, down, names, passing, words, onSelect });
    Object.assign(this, { rows: [], searched: [], first: -1, last: -1, orders: new Map(), haystack: [] });
    const heads = columns.map(({ key, title, kind: numeric, width }) => {
      const head = element('th', { scope: 'col', class: numeric, 'data-key': key },
        element('button', { type: 'button', click: () => this.sortBy(key) }, title));
      head.style.width = width;
      return head;
    });
    this.body = element('tbody');
    this.table = element('table', { class: 'rows', 'aria-rowcount': many + 1 },
      element('thead', null, element('tr', { 'aria-rowindex': '1' }, heads)), this.body);
    this.box = makeScrollable(element('div', { class: 'scroll tall', tabindex: '0', role: 'region', 'aria-label': label }, this.table));
    this.none = element('p', { class: 'empty', hidden: true }, none);
    put(place, this.box, this.none);
    this.box.addEventListener('scroll', () => requestAnimationFrame(() => this.render(false)), { passive: true });
    this.box.addEventListener('keydown', (event) => this.step(event));
    this.markSorted();
    Grid.all.push(this);
  }

  // Returns all rows in the order of a column. Ties, or all rows without a column, stay in their original order.
  order() {
    if (!this.orders.has(this.by)) {
      const { text, value } = this.columns.find(({ key }) => key === this.by) || { value: () => 0 };
      const order = new Uint32Array(this.many);
      for (let row = 0; row < this.many; row++) order[row] = row;
      const what = text ? Array.from(order, text) : Float64Array.from(order, value);
      order.sort((a, b) => (what[a] < what[b] ? -1 : what[a] > what[b] ? 1 : a - b));
      this.orders.set(this.by, order);
    }
    return this.orders.get(this.by);
  }

  matches(row) {
    const text = this.haystack[row] ??= this.words(row).toLowerCase();
    return this.searched.every((word) => text.includes(word));
  }

  search(words) {
    this.searched = words.toLowerCase().split(/\s+/).filter(Boolean);
    this.select();
  }

  // Selects the rows that pass the filter and the search, and renders them.
  select() {
    const passes = this.passing();
    const order = this.order();
    this.rows = [];
    for (let at = 0; at < order.length; at++) {
      const row = order[this.down ? order.length - 1 - at : at];
      if ((!passes || passes(row)) && (!this.searched.length || this.matches(row))) this.rows.push(row);
    }
    this.table.setAttribute('aria-rowcount', this.rows.length + 1);
    this.box.scrollTop = 0;
    this.render(true);
    this.onSelect(this.rows);
  }

  // Renders the visible rows, or the first `all` rows. If `force` is not set, does nothing unless the visible range changed.
  render(force, all) {
    const high = this.box.clientHeight || 544;
    const first = all ? 0 : Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - MARGIN);
    const last = Math.min(this.rows.length, all || first + Math.ceil(high / HEIGHT) + 2 * MARGIN);
    if (!force && first === this.first && last === this.last) return;
    // If the focused row is removed, the table gets the focus.
    const held = this.body.contains(document.activeElement) ? document.activeElement.closest('tr').dataset.at : null;
    [this.first, this.last] = [first, last];
    const top = this.box.scrollTop;
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.row(at));
    this.body.replaceChildren(this.spacer(first), ...rows, this.spacer(all ? 0 : this.rows.length - last));
    // If the focused row is removed, Chromium may scroll while the table has no rows.
    if (this.box.scrollTop !== top) this.box.scrollTop = top;
    if (held !== null) (this.linkAt(Number(held)) || this.box).focus({ preventScroll: true });
    this.none.hidden = this.rows.length > 0;
  }

  spacer(rows) {
    const pad = element('tr', { class: 'pad', 'aria-hidden': 'true' }, element('td', { colspan: this.columns.length }));
    pad.style.height = `${rows * HEIGHT}px`;
    return pad;
  }

  row(at) {
    const row = this.rows[at];
    const cells = this.columns.map(({ key, kind: numeric, cell }) => (key === this.names
      ? element('th', { scope: 'row' }, cell(row)) : element('td', { class: numeric }, cell(row))));
    return element('tr', { 'aria-rowindex': at + 2, 'data-at': at }, cells);
  }

  linkAt(at) {
    return this.body.querySelector(`tr[data-at="${at}"] a`);
  }

  // Moves the focus from link to link with the arrow keys.
  step(event) {
    const from = event.target.closest('tr[data-at]');
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!from || !by) return;
    event.preventDefault();
    const at = Math.max(0, Math.min(this.rows.length - 1, Number(from.dataset.at) + by));
    const [top, high] = [at * HEIGHT, this.box.clientHeight - 2 * HEIGHT];
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top > this.box.scrollTop + high) this.box.scrollTop = top - high;
    this.render(false);
    this.linkAt(at)?.focus({ preventScroll: true });
  }

  sortBy(key) {
    const wanted = this.columns.find((other) => other.key === key);
    this.down = this.by === key ? !this.down : Boolean(wanted.down);
    this.by = key;
    this.markSorted();
    this.select();
  }

  markSorted() {
    for (const head of this.table.tHead.rows[0].cells) {
      if (head.dataset.key === this.by) head.setAttribute('aria-sort', this.down ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    }
  }
}
Grid.all = [];

// Searches several tables for the text of a field, shortly after the user stops typing.
function searchField(id, grids) {
  let timer = 0;
  const field = document.getElementById(id);
  field.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => grids.forEach((grid) => grid.search(field.value)), 60);
  });
}
