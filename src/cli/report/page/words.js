// SPDX-License-Identifier: LGPL-3.0-only
// Numbers, times, names and colours for people, and elements. Text becomes text nodes, never markup.

const HOUR = 3600;
const DAY = 86400;
const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const short = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 });
const inHours = data.unit === 'node-seconds';
const unitName = inHours ? 'node-hours' : 'usage';

const count = (number, what, several) =>
  `${grouped.format(number)} ${number === 1 ? what : several || `${what}s`}`;
const amountOf = (usage) => (inHours ? usage / HOUR : usage);

function figure(usage) {
  const amount = amountOf(usage);
  if (amount === 0) return '0';
  if (amount >= 1e12) return amount.toExponential(2);
  if (amount < 0.01) return amount < 1e-6 || inHours ? '< 0.01' : short.format(amount);
  return amount < 1000 && !Number.isInteger(amount) ? few.format(amount) : grouped.format(amount);
}
const amount = (usage) => (inHours ? `${figure(usage)} node-hours` : figure(usage));

function percent(part) {
  if (part === 0) return '0 %';
  return part < 0.0001 ? '< 0.01 %' : `${(part * 100).toFixed(part < 0.1 ? 2 : 1)} %`;
}

// Used beside promised: 1 is even.
function times(ratio) {
  if (ratio === Infinity) return 'no share';
  if (ratio === 0) return 'unused';
  if (ratio < 0.01) return '< 0.01 ×';
  return ratio < 1000 ? `${ratio.toFixed(2)} ×` : `${grouped.format(ratio)} ×`;
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
const whoIs = (node) => `${isBank(node) ? 'bank ' : ''}${shown(nameOf(node))}`;

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
const RAMPS = {
  light: [[33, 94, 160], [150, 187, 219], [236, 235, 230], [236, 176, 124], [186, 82, 8]],
  dark: [[94, 168, 235], [58, 100, 143], [58, 61, 66], [148, 92, 47], [240, 145, 66]],
};
// The colour of a ratio, as far from the middle as its logarithm: 1/4 and less, or 4 and more, are the ends.
function colourOf(ratio) {
  const ramp = RAMPS[isDark() ? 'dark' : 'light'];
  const at = Math.max(0, Math.min(4, 2 + Math.log2(Math.max(ratio, 1e-9))));
  const from = Math.min(3, Math.floor(at));
  const [low, high] = [ramp[from], ramp[from + 1]];
  return low.map((value, channel) => Math.round(value + (high[channel] - value) * (at - from)));
}
const css = (colour) => `rgb(${colour.join(' ')})`;
const luminance = (colour) => {
  const [red, green, blue] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
// Black or white, whichever is read better on it.
const inkOn = (colour) => (luminance(colour) > 0.179 ? '#000000' : '#ffffff');

// Colours that tell apart also for the colour-blind (after Paul Tol), and lighter ones on dark paper.
const KINDS = {
  light: ['#4477aa', '#cc6677', '#228833', '#bfa52d', '#55b0d6', '#aa3377', '#882255', '#9a9a9a'],
  dark: ['#77aadd', '#ee8899', '#66bb6a', '#ddcc66', '#88ddee', '#cc77aa', '#bb5588', '#8a8f96'],
};
const kind = (at) => KINDS[isDark() ? 'dark' : 'light'][at];

// A bar as long as what was used, with a mark at the share.
function meter(part, share, ratio) {
  const most = Math.max(part, share, 1e-9);
  const scale = most > 1 ? most : 1;
  const bar = element('i', { class: side(ratio) });
  const mark = element('u');
  bar.style.width = `${(part / scale) * 100}%`;
  mark.style.left = `calc(${(share / scale) * 100}% - 1px)`;
  return element('span', { class: 'meter', 'aria-hidden': 'true' }, bar, mark);
}
const side = (ratio) => (ratio > 1.005 ? 'over' : ratio < 0.995 ? 'under-share' : '');
const userLink = (user, text) =>
  element('a', { href: `#user=${encodeURIComponent(users.name[user])}` }, text || shown(users.name[user]));
