// SPDX-License-Identifier: LGPL-3.0-only
// The data of a page; numbers, times, names and colours for people, and elements. Text becomes text nodes, never markup.

const data = JSON.parse(document.getElementById('data').textContent);
const HOUR = 3600;
const DAY = 86400;
const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const short = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 });
const count = (number, what, several) =>
  `${grouped.format(number)} ${number === 1 ? what : several || `${what}s`}`;
function percent(part) {
  if (part === 0) return '0 %';
  return part < 0.0001 ? '< 0.01 %' : `${(part * 100).toFixed(part < 0.1 ? 2 : 1)} %`;
}

function ordinal(place) {
  const [tens, ones] = [place % 100, place % 10];
  const ending = tens > 10 && tens < 14 ? 'th' : ['th', 'st', 'nd', 'rd'][ones] || 'th';
  return grouped.format(place) + ending;
}

const pad = (number) => String(number).padStart(2, '0');
function day(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return 'some day';
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}
function moment(seconds) {
  const date = new Date(seconds * 1000);
  return `${day(seconds)} ${pad(date.getHours())}:${pad(date.getMinutes())}`;
}
function duration(seconds) {
  for (const [length, name] of [[DAY, 'day'], [HOUR, 'hour'], [60, 'minute']]) {
    if (seconds >= 2 * length) return count(Math.ceil(seconds / length), name);
  }
  return count(Math.max(0, Math.ceil(seconds)), 'second');
}

// A name with what would not be seen, or would turn the direction of writing, spelt out.
const ACTS = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
function shown(name) {
  const text = name.replace(ACTS, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
  return text.trim() === '' ? `“${text}”` : text;
}
function cut(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : text;
}
// element('a', { href }, child, ...): attributes that are functions listen; children are elements or text.
function element(tag, attributes, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}
function drawn(tag, attributes, ...children) {
  return furnish(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}
function furnish(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}
// How wide a drawing may be: its letters are not scaled.
const room = () => Math.max(300, document.getElementById('content').clientWidth - 2 * (innerWidth > 640 ? 24 : 16));
const plotWidth = () => Math.min(room(), 1168);
const put = (id, ...children) => document.getElementById(id).replaceChildren(...children.flat());

let whose = '';
// Names of tables within are to be told apart by this.
function about(name, make) {
  whose = name;
  try { return make(); } finally { whose = ''; }
}

// A table with a head: columns are [title, class], rows are arrays of cells, the first names its row.
function table(caption, columns, rows, more) {
  const head = columns.map(([title, kind]) => element('th', { scope: 'col', class: kind }, title));
  const line = (cells) => element('tr', null, cells.map((cell, at) => {
    const kind = columns[at][1];
    return at === 0 ? element('th', { scope: 'row', class: kind }, cell) : element('td', { class: kind }, cell);
  }));
  return element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption + whose },
    element('table', more, element('caption', null, caption),
      element('thead', null, element('tr', null, head)), element('tbody', null, rows.map(line))));
}

const isDark = () => document.documentElement.dataset.theme === 'dark';
// Colours that tell apart also for the colour-blind (after Paul Tol), and lighter ones on dark paper.
const KINDS = {
  light: ['#4477aa', '#cc6677', '#228833', '#bfa52d', '#55b0d6', '#aa3377', '#882255', '#9a9a9a'],
  dark: ['#77aadd', '#ee8899', '#66bb6a', '#ddcc66', '#88ddee', '#cc77aa', '#bb5588', '#8a8f96'],
};
const kind = (at) => KINDS[isDark() ? 'dark' : 'light'][at];
