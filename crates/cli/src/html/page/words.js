// SPDX-License-Identifier: LGPL-3.0-only
// The data of the page, and functions for numbers, times, names, colours and elements. Texts become text nodes, never markup.

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

// Formats a duration in the largest unit of which it is a multiple.
function unrounded(seconds) {
  const [length, name] = [[DAY, 'day'], [HOUR, 'hour'], [60, 'minute'], [1, 'second']].find(([size]) => seconds % size === 0 || size === 1);
  return count(seconds / length, name);
}

// Escapes invisible characters in a name, and characters that change the direction of writing.
const ACTS = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
function shown(name) {
  const text = name.replace(ACTS, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
  return text.trim() === '' ? `“${text}”` : text;
}
function cut(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : text;
}
// element('a', { href }, child, ...): attributes that are functions become event listeners; children are elements or text.
function element(tag, attributes, ...children) {
  return fillElement(document.createElement(tag), attributes, children);
}
function svgElement(tag, attributes, ...children) {
  return fillElement(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}
function fillElement(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}
// Returns the greatest width of a chart. Charts are not scaled, so that their letters keep their size.
const room = () => Math.max(300, document.getElementById('content').clientWidth - 2 * (innerWidth > 640 ? 24 : 16));
const plotWidth = () => Math.min(room(), 1168);
const put = (id, ...children) => document.getElementById(id).replaceChildren(...children.flat());

let labelSuffix = '';
// Calls `make`, and adds `name` to the labels of the tables that it makes, so that labels are unique.
function about(name, make) {
  labelSuffix = name;
  try { return make(); } finally { labelSuffix = ''; }
}

// Returns a table. Columns are [title, class]; rows are arrays of cells, of which the first is the row's header.
// Marks the boxes whose table is wider than they are: they say that they scroll.
const widths = new ResizeObserver((seen) => {
  for (const { target } of seen) target.classList.toggle('wider', target.scrollWidth > target.clientWidth + 1);
});
function makeScrollable(box) {
  widths.observe(box);
  return box;
}

function table(caption, columns, rows, more) {
  const head = columns.map(([title, kind]) => element('th', { scope: 'col', class: kind }, title));
  const line = (cells) => element('tr', null, cells.map((cell, at) => {
    const kind = columns[at][1];
    return at === 0 ? element('th', { scope: 'row', class: kind }, cell) : element('td', { class: kind }, cell);
  }));
  return makeScrollable(element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption + labelSuffix },
    element('table', more, element('caption', null, caption),
      element('thead', null, element('tr', null, head)), element('tbody', null, rows.map(line)))));
}

const isDark = () => document.documentElement.dataset.theme === 'dark';
// Colours that colour-blind people can distinguish (after Paul Tol), and lighter ones for the dark theme.
const KINDS = {
  light: ['#4477aa', '#cc6677', '#228833', '#bfa52d', '#55b0d6', '#aa3377', '#882255', '#9a9a9a'],
  dark: ['#77aadd', '#ee8899', '#66bb6a', '#ddcc66', '#88ddee', '#cc77aa', '#bb5588', '#8a8f96'],
};
const kind = (at) => KINDS[isDark() ? 'dark' : 'light'][at];
