// SPDX-License-Identifier: LGPL-3.0-only
// Parts of charts: axes, keys, and stacked bars.

// Returns round numbers for an axis from 0 to at least `most`.
function findRoundNumbers(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, at) => at * step);
}

const onAxis = (mark) => (mark >= 1e6 ? `${short.format(mark / 1e6)} M` : short.format(mark));

// Returns the legend of the colours.
function makeLegend(names, colour) {
  return element('ul', { class: 'keys' }, names.map((name, at) => {
    const swatch = element('i', { 'aria-hidden': 'true' });
    swatch.style.backgroundColor = colour(at);
    return element('li', null, swatch, name);
  }));
}

// Returns horizontal grid lines with their numbers at the left.
function scale(marks, { left, right, y, text = onAxis }) {
  return marks.flatMap((mark) => [
    svgElement('line', { x1: left, x2: right, y1: y(mark), y2: y(mark), class: 'grid' }),
    svgElement('text', { x: left - 10, y: y(mark) + 4, 'text-anchor': 'end' }, text(mark)),
  ]);
}

// Moves labels apart that would overlap, within the plot.
function separateLabels(labels, gap, bottom) {
  labels.sort((a, b) => a.y - b.y);
  labels.forEach((label, at) => { label.at = at ? Math.max(label.y, labels[at - 1].at + gap) : label.y; });
  for (let at = labels.length - 1, limit = bottom; at >= 0; at--, limit -= gap) {
    labels[at].at = Math.min(labels[at].at, limit);
    limit = Math.min(limit, labels[at].at);
  }
  return labels;
}

// Draws a stacked bar of [name, values] for each label.
function drawStackedBars({ label, list, total, labels, colour, tooltip }) {
  const width = plotWidth();
  const [high, left, bottom, top] = [300, 64, 262, 12];
  const marks = findRoundNumbers(Math.max(...total));
  const y = (value) => bottom - (value / marks[marks.length - 1]) * (bottom - top);
  const slot = (width - left) / total.length;
  const wide = Math.min(slot * (total.length > 30 ? 0.82 : 0.66), 120);
  const svg = svgElement('svg', { viewBox: `0 0 ${width} ${high}`, class: 'plot', role: 'img', 'aria-label': label }, scale(marks, { left, right: width, y }));
  const every = Math.ceil(Math.max(85, 8 * Math.max(...labels.map((text) => text.length))) / slot);
  total.forEach((_, at) => {
    const x = left + at * slot + (slot - wide) / 2;
    let base = 0;
    list.forEach(([, values], which) => {
      if (values[at] <= 0) return;
      svg.append(svgElement('rect', { x, width: wide, y: y(base + values[at]), height: y(base) - y(base + values[at]), fill: colour(which) },
        svgElement('title', null, tooltip(which, at))));
      base += values[at];
    });
    if (at % every === 0 && x + 40 < width) svg.append(svgElement('text', { x: x + wide / 2, y: bottom + 20, 'text-anchor': 'middle' }, labels[at]));
  });
  svg.append(svgElement('line', { x1: left, x2: width, y1: bottom, y2: bottom, class: 'axis' }));
  return svg;
}
