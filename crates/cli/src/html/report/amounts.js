// SPDX-License-Identifier: LGPL-3.0-only
// Formats and colours of usage and shares. Usage in node-seconds is shown in node-hours.

const inHours = data.unit === 'node-seconds';
const unitName = inHours ? 'node-hours' : 'usage';

const amountOf = (usage) => (inHours ? usage / HOUR : usage);

function figure(usage) {
  const amount = amountOf(usage);
  if (amount === 0) return '0';
  if (amount >= 1e12) return amount.toExponential(2);
  if (amount < 0.01) return amount < 1e-6 || inHours ? '< 0.01' : short.format(amount);
  return amount < 1000 && !Number.isInteger(amount) ? few.format(amount) : grouped.format(amount);
}
const amount = (usage) => (inHours ? `${figure(usage)} node-hours` : figure(usage));

// Formats used / share; 1 is even.
function times(ratio) {
  if (ratio === Infinity) return 'no share';
  if (ratio === 0) return 'unused';
  if (ratio < 0.01) return '< 0.01 ×';
  return ratio < 1000 ? `${ratio.toFixed(2)} ×` : `${grouped.format(ratio)} ×`;
}

const nodeLabel = (node) => `${isBank(node) ? 'bank ' : ''}${shown(nameOf(node))}`;

const RAMPS = {
  light: [[33, 94, 160], [150, 187, 219], [236, 235, 230], [236, 176, 124], [186, 82, 8]],
  dark: [[94, 168, 235], [58, 100, 143], [58, 61, 66], [148, 92, 47], [240, 145, 66]],
};
// Returns the colour of a ratio on a logarithmic ramp from 1/4 to 4.
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
// Returns black or white, whichever is easier to read on the colour.
const inkOn = (colour) => (luminance(colour) > 0.179 ? '#000000' : '#ffffff');

// Returns a bar as long as the usage, with a mark at the share.
// Draws `part` as a bar and `share` as a mark. `scale` is the value at the right end.
function meter(part, share, ratio, scale = Math.max(part, share, 1)) {
  const bar = element('i', { class: side(ratio) });
  const mark = element('u');
  bar.style.width = `${(part / scale) * 100}%`;
  mark.style.left = `calc(${(share / scale) * 100}% - 1px)`;
  return element('span', { class: 'meter', 'aria-hidden': 'true' }, bar, mark);
}
const side = (ratio) => (ratio > 1.005 ? 'over' : ratio < 0.995 ? 'under-share' : '');
const userLink = (user, text) =>
  element('a', { href: `#user=${encodeURIComponent(users.name[user])}` }, text || shown(users.name[user]));
