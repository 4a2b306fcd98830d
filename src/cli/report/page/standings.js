// SPDX-License-Identifier: LGPL-3.0-only
// Everyone's standing: a table of any length, of which only the rows in sight exist.

const HEIGHT = 36;
const MARGIN = 8;
const FILTERS = [
  ['all', 'All', () => true],
  ['over', 'Over share', (ratio) => ratio > 1],
  ['under', 'Under share', (ratio) => ratio < 1],
  ['unused', 'Unused', (ratio, usage) => usage === 0],
];
const ranks = users.places[0];
const ratios = new Float64Array(userCount);
for (let user = 0; user < userCount; user++) ratios[user] = ratioOf(bankCount + user);

const COLUMNS = [
  { key: 'place', title: 'Place', kind: 'number', width: '9%', of: (user) => ranks[user] || Infinity, cell: (user) => (ranks[user] ? grouped.format(ranks[user]) : '–') },
  { key: 'user', title: 'User', width: '18%', text: (user) => users.name[user], cell: (user) => userLink(user) },
  { key: 'bank', title: 'Bank', width: '16%', text: (user) => banks.name[users.bank[user]], cell: (user) => shown(banks.name[users.bank[user]]) },
  { key: 'fairshare', title: 'Fair-share', kind: 'number', width: '11%', down: true, of: (user) => users.fairshare[user] ?? -1, cell: (user) => (users.fairshare[user] === null ? '–' : users.fairshare[user].toFixed(4)) },
  { key: 'shares', title: 'Shares', kind: 'number', width: '9%', down: true, of: (user) => users.shares[user] ?? -1, cell: (user) => (users.shares[user] === null ? 'parent' : grouped.format(users.shares[user])) },
  { key: 'usage', title: inHours ? 'Node-hours' : 'Usage', kind: 'number', width: '14%', down: true, of: (user) => users.usage[user], cell: (user) => figure(users.usage[user]) },
  { key: 'ratio', title: 'Used / share', kind: 'number', width: '12%', down: true, of: (user) => ratios[user], cell: (user) => element('span', { class: side(ratios[user]) }, times(ratios[user])) },
  { key: 'even', title: 'Even again', kind: 'number', width: '11%', down: true, of: (user) => users.even_in[user] ?? (users.lost[user] === null ? -1 : Infinity), cell: (user) => evenDay(user) },
];

function evenDay(user) {
  if (users.lost[user] === null) return '–';
  return users.even_in[user] === null ? 'not known' : day(data.generated + users.even_in[user]);
}

const grid = { rows: [], by: 'place', down: false, words: '', filter: 'all', orders: new Map(), first: -1, last: -1 };

// All associations in the order of a column; ties in the order of the tree.
function orderBy(key) {
  if (grid.orders.has(key)) return grid.orders.get(key);
  const wanted = COLUMNS.find((other) => other.key === key);
  const order = new Uint32Array(userCount);
  for (let user = 0; user < userCount; user++) order[user] = user;
  if (wanted.text) {
    const text = Array.from(order, wanted.text);
    order.sort((a, b) => (text[a] < text[b] ? -1 : text[a] > text[b] ? 1 : a - b));
  } else {
    const value = Float64Array.from(order, wanted.of);
    order.sort((a, b) => (value[a] < value[b] ? -1 : value[a] > value[b] ? 1 : a - b));
  }
  grid.orders.set(key, order);
  return order;
}

let haystack = null;
function matches(user, words) {
  if (!haystack) haystack = [];
  const text = haystack[user] ??= `${users.name[user]} ${banks.name[users.bank[user]]}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function select() {
  const inside = focus.bank === ROOT ? null : within(focus.bank);
  const passes = FILTERS.find(([key]) => key === grid.filter)[2];
  const words = grid.words.toLowerCase().split(/\s+/).filter(Boolean);
  const order = orderBy(grid.by);
  const rows = [];
  for (let at = 0; at < order.length; at++) {
    const user = order[grid.down ? order.length - 1 - at : at];
    if (inside && !inside[users.bank[user]]) continue;
    if (grid.filter !== 'all' && !passes(ratios[user], users.usage[user])) continue;
    if (words.length && !matches(user, words)) continue;
    rows.push(user);
  }
  grid.rows = rows;
  const where = focus.bank === ROOT ? '' : ` in ${shown(banks.name[focus.bank])}`;
  put('found', rows.length === userCount ? count(userCount, 'association')
    : `${grouped.format(rows.length)} of ${count(userCount, 'association')}${where}`);
  grid.table.setAttribute('aria-rowcount', rows.length + 1);
  grid.box.scrollTop = 0;
  render(true);
}

// The rows in sight, or as many as are asked for.
function render(anew, all) {
  const high = grid.box.clientHeight || 544;
  const first = all ? 0 : Math.max(0, Math.floor(grid.box.scrollTop / HEIGHT) - MARGIN);
  const last = all || Math.min(grid.rows.length, first + Math.ceil(high / HEIGHT) + 2 * MARGIN);
  if (!anew && first === grid.first && last === grid.last) return;
  // A row that goes out of sight takes the focus along with it: the table keeps it.
  const held = grid.body.contains(document.activeElement) ? document.activeElement.closest('tr').dataset.at : null;
  [grid.first, grid.last] = [first, last];
  const rows = [];
  for (let at = first; at < Math.min(last, grid.rows.length); at++) rows.push(row(at));
  grid.body.replaceChildren(spacer(first), ...rows, spacer(grid.rows.length - Math.min(last, grid.rows.length)));
  if (held !== null) (linkAt(Number(held)) || grid.box).focus({ preventScroll: true });
  grid.none.hidden = grid.rows.length > 0;
}

function spacer(rows) {
  const pad = element('tr', { class: 'pad', 'aria-hidden': 'true' }, element('td', { colspan: COLUMNS.length }));
  pad.style.height = `${rows * HEIGHT}px`;
  return pad;
}

function row(at) {
  const user = grid.rows[at];
  const cells = COLUMNS.map(({ key, kind: numeric, cell }) => (key === 'user'
    ? element('th', { scope: 'row' }, cell(user)) : element('td', { class: numeric }, cell(user))));
  return element('tr', { 'aria-rowindex': at + 2, 'data-at': at }, cells);
}

const linkAt = (at) => grid.body.querySelector(`tr[data-at="${at}"] a`);

function sortBy(key) {
  const wanted = COLUMNS.find((other) => other.key === key);
  grid.down = grid.by === key ? !grid.down : Boolean(wanted.down);
  grid.by = key;
  markSorted();
  select();
}

function markSorted() {
  for (const head of grid.table.tHead.rows[0].cells) {
    if (head.dataset.key === grid.by) head.setAttribute('aria-sort', grid.down ? 'descending' : 'ascending');
    else head.removeAttribute('aria-sort');
  }
}

function startStandings() {
  const heads = COLUMNS.map(({ key, title, kind: numeric, width }) => {
    const head = element('th', { scope: 'col', class: numeric, 'data-key': key },
      element('button', { type: 'button', click: () => sortBy(key) }, title));
    head.style.width = width;
    return head;
  });
  grid.body = element('tbody');
  grid.table = element('table', { class: 'rows', 'aria-rowcount': userCount + 1 },
    element('thead', null, element('tr', { 'aria-rowindex': '1' }, heads)), grid.body);
  grid.box = element('div', { class: 'scroll tall', tabindex: '0', role: 'region', 'aria-label': 'Table of standings' }, grid.table);
  grid.none = element('p', { class: 'empty', hidden: true }, 'Nobody is like that.');
  put('standings-table', grid.box, grid.none);
  grid.box.addEventListener('scroll', () => requestAnimationFrame(() => render(false)), { passive: true });
  grid.box.addEventListener('keydown', (event) => {
    const from = event.target.closest('tr[data-at]');
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!from || !by) return;
    event.preventDefault();
    const at = Math.max(0, Math.min(grid.rows.length - 1, Number(from.dataset.at) + by));
    const [top, high] = [at * HEIGHT, grid.box.clientHeight - 2 * HEIGHT];
    if (top < grid.box.scrollTop) grid.box.scrollTop = top;
    else if (top > grid.box.scrollTop + high) grid.box.scrollTop = top - high;
    render(false);
    linkAt(at)?.focus({ preventScroll: true });
  });
  const choices = FILTERS.map(([key, title]) => element('label', null,
    element('input', { type: 'radio', name: 'filter', value: key, checked: key === 'all', change: () => { grid.filter = key; select(); } }), title));
  document.getElementById('filter').append(...choices);
  let patience = 0;
  const search = document.getElementById('search');
  search.addEventListener('input', () => {
    clearTimeout(patience);
    patience = setTimeout(() => { grid.words = search.value; select(); }, 60);
  });
  markSorted();
  focus.followers.push(select);
}
