// SPDX-License-Identifier: LGPL-3.0-only
// The table of all scenarios, and the chart of two measures.

function measureColumn(key, title, of, width, down) {
  const value = (row) => scenarios[row][key] ?? -1;
  return { key, title, kind: 'number', width, down, value, cell: (row) => written(of, scenarios[row][key]) };
}

function startScenarios() {
  const not = ({ rejected, never }) => rejected + never;
  const columns = [
    { key: 'scenario', title: 'Scenario', width: '28%', text: (row) => scenarios[row].scenario, cell: (row) => nameWithTooltip(scenarios[row].scenario) },
    measureColumn('jobs', 'Jobs', grouped.format, '7%', true),
    { key: 'not', title: 'Not run', kind: 'number', width: '7%', down: true, value: (row) => not(scenarios[row]), cell: (row) => grouped.format(not(scenarios[row])) },
    measureColumn('wait_mean', 'Wait', span, '9%'),
    measureColumn('wait_p95', '95 %', span, '9%'),
    measureColumn('slowdown_mean', 'Slowdown', ratio, '9%'),
    measureColumn('slowdown_p95', '95 %', ratio, '7%'),
    measureColumn('utilisation', 'Used', part, '8%', true),
    measureColumn('jain', 'Jain', index, '7%', true),
    measureColumn('behind', 'Behind', span, '9%'),
  ];
  const onSelect = (rows) => {
    const all = count(scenarios.length, 'scenario');
    const which = rows.length > DRAWN ? `; the charts show the first ${DRAWN}` : '';
    put('found', `${rows.length === scenarios.length ? all : `${grouped.format(rows.length)} of ${all}`}${which}`);
    compared.all = rows;
    compared.scenarios = rows.slice(0, DRAWN);
    compared.followers.forEach((follow) => follow());
  };
  const grid = new Grid('scenarios-table', {
    label: 'Table of scenarios', columns, many: scenarios.length, by: null, names: 'scenario', passing: () => null, onSelect,
    words: (row) => scenarios[row].scenario, none: 'No scenario matches.',
  });
  searchField('search', [grid]);
  return grid;
}

const FAINT = 2000;
function drawTrade() {
  const [x, y] = ['across', 'up'].map((id) => MEASURES[Number(document.getElementById(id).value)]);
  const rows = compared.all.filter((row) => scenarios[row][x[0]] !== null && scenarios[row][y[0]] !== null);
  if (rows.length === 0) {
    put('trade', element('p', { class: 'empty' }, 'No scenario has both measures.'));
    return;
  }
  const width = plotWidth();
  const [high, left, right, bottom, top] = [340, 72, width - 16, 288, 16];
  const scaleOf = ([key, , of], low, far) => {
    const values = rows.map((row) => scenarios[row][key]);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    // If all values are close together and far from 0, the axis does not begin at 0.
    const { marks, text } = findMarks(of, most || 1, least > 0.5 * most && least < most ? least : 0);
    const [from, to] = [marks[0], marks[marks.length - 1]];
    return { marks, text, at: (value) => low + ((value - from) / (to - from)) * (far - low), of: (row) => scenarios[row][key] };
  };
  const across = scaleOf(x, left, right);
  const up = scaleOf(y, bottom, top);
  const svg = svgElement('svg', { viewBox: `0 0 ${width} ${high}`, class: 'plot', role: 'img', 'aria-label': `${x[1]} across and ${y[1]} up, a dot for each scenario; the table above has the same data` },
    scale(up.marks, { left, right, y: up.at, text: up.text }));
  for (const mark of across.marks) {
    svg.append(svgElement('line', { x1: across.at(mark), x2: across.at(mark), y1: top, y2: bottom, class: 'grid' }),
      svgElement('text', { x: across.at(mark), y: bottom + 20, 'text-anchor': 'middle' }, across.text(mark)));
  }
  svg.append(svgElement('text', { x: right, y: bottom + 42, 'text-anchor': 'end', class: 'strong' }, `${x[1]} →`),
    svgElement('text', { x: left + 6, y: top + 4, class: 'strong' }, `${y[1]} ↑`));
  const tooltip = (row) => `${nameOf(row)}: ${x[1]} ${written(x[2], across.of(row))}, ${y[1]} ${written(y[2], up.of(row))}`;
  const stride = Math.max(1, Math.ceil(rows.length / FAINT));
  const named = new Set(compared.scenarios);
  rows.forEach((row, at) => at % stride === 0 && !named.has(row) && svg.append(
    svgElement('circle', { cx: across.at(across.of(row)), cy: up.at(up.of(row)), r: 3, class: 'dot' }, svgElement('title', null, tooltip(row)))));
  const labels = compared.scenarios.map((row, at) => ({ row, at, y: up.at(up.of(row)) })).filter(({ row }) => rows.includes(row));
  for (const { row, at: label, colour: fill } of separateLabels(labels.map(({ row, at, y: place }) => ({ row, y: place, colour: colour(at) })), 15, bottom)) {
    const [cx, cy] = [across.at(across.of(row)), up.at(up.of(row))];
    const far = cx > (left + right) / 2;
    svg.append(svgElement('circle', { cx, cy, r: 5, fill }, svgElement('title', null, tooltip(row))),
      svgElement('text', { x: cx + (far ? -10 : 10), y: label + 4, 'text-anchor': far ? 'end' : 'start', class: 'strong' }, cut(nameOf(row), 40)));
  }
  put('trade', svg);
}

function startTrade() {
  for (const [id, chosen] of [['across', 'wait_mean'], ['up', 'jain']]) {
    const select = document.getElementById(id);
    select.append(...MEASURES.map(([key, title], at) => element('option', { value: at, selected: key === chosen }, title)));
    select.addEventListener('change', drawTrade);
  }
  // A single dot adds nothing to the table.
  if (scenarios.length < 2) ['trade', 'trade-title', 'trade-controls'].forEach((id) => { document.getElementById(id).hidden = true; });
  else compared.followers.push(drawTrade);
}
