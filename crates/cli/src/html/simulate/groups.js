// SPDX-License-Identifier: LGPL-3.0-only
// Draws the charts and tables by bank and by size: promised and delivered shares, waits and slowdowns.

const KINDS_OF_GROUPS = { banks: groupsBy('bank'), sizes: groupsBy('size') };
const MEASURED = [['wait', 'Wait', span], ['slowdown', 'Slowdown', ratio]];

function startGroups(place, title) {
  const rows = KINDS_OF_GROUPS[place];
  const several = scenarios.length > 1;
  const numeric = (key, head, of, width, down) => ({ key, title: head, kind: 'number', width, down, value: (row) => rows[row][key] ?? -1, cell: (row) => written(of, rows[row][key]) });
  const deliveredOverPromised = ({ delivered, promised }) => (delivered === null || !promised ? null : delivered / promised);
  const wide = place === 'banks';
  const columns = [
    several && { key: 'scenario', title: 'Scenario', width: wide ? '23%' : '32%', text: (row) => rows[row].scenario, cell: (row) => nameWithTooltip(rows[row].scenario) },
    { key: 'group', title, width: wide ? '12%' : '17%', [wide ? 'text' : 'value']: (row) => (wide ? rows[row].group : sizeOf(rows[row].group)), cell: (row) => nameWithTooltip(rows[row].group) },
    numeric('jobs', 'Jobs', grouped.format, '6%', true),
    wide && numeric('promised', 'Promised', part, '9%', true),
    wide && numeric('delivered', 'Delivered', part, '9%', true),
    wide && { key: 'got', title: 'Got', kind: 'number', width: '7%', down: true, value: (row) => deliveredOverPromised(rows[row]) ?? -1, cell: (row) => written((times) => `${times.toFixed(2)} ×`, deliveredOverPromised(rows[row])) },
    numeric('wait_mean', 'Wait', span, '9%'),
    numeric('wait_p95', '95 %', span, '9%'),
    numeric('slowdown_mean', 'Slowdown', ratio, '9%'),
    numeric('slowdown_p95', '95 %', ratio, '7%'),
  ].filter(Boolean);
  const onSelect = (found) => put(`${place}-found`, `${grouped.format(found.length)} of ${grouped.format(rows.length)}`);
  const grid = new Grid(`${place}-table`, {
    label: `Table of ${place}`, columns, many: rows.length, by: null, names: 'group', passing: () => null, onSelect,
    words: (row) => `${rows[row].group} ${rows[row].scenario}`, none: 'No row matches.',
  });
  searchField(`${place}-search`, [grid]);
  const select = document.getElementById(`${place}-measure`);
  select.append(...MEASURED.map(([, name], at) => element('option', { value: at }, name)));
  const of = findRowsByScenario(rows);
  const draw = () => drawGroups(place, rows, of);
  select.addEventListener('change', draw);
  compared.followers.push(draw);
  return grid;
}

// Returns the smallest number of cores of a group: 17 for "17 to 64 cores".
const sizeOf = (name) => Number.parseInt(name, 10);

// Returns at most SHOWN groups in the order in which they are drawn: sizes ascending, banks by descending promised share.
const SHOWN = 20;
function chooseGroups(place, rows) {
  const first = new Map();
  rows.forEach((row) => first.has(row.group) || first.set(row.group, row));
  const all = [...first.values()].sort(place === 'banks'
    ? (a, b) => b.promised - a.promised || (a.group < b.group ? -1 : 1) : (a, b) => sizeOf(a.group) - sizeOf(b.group));
  return { groups: all.slice(0, SHOWN).map(({ group }) => group), more: Math.max(0, all.length - SHOWN) };
}
const onlySome = (more) => (more ? element('p', { class: 'hint' }, `The ${SHOWN} with the largest part; the table has ${grouped.format(more)} more.`) : null);

// Draws a bar for each group and scenario, as high as the mean, with a line to the 95th percentile.
function drawGroups(place, rows, of) {
  const [key, title, how] = MEASURED[Number(document.getElementById(`${place}-measure`).value)];
  const { groups, more } = chooseGroups(place, rows);
  const bars = groups.flatMap((group, slot) => compared.scenarios.map((scenario, at) => ({ group, slot, at, scenario, row: of(scenario, group) })))
    .filter(({ row }) => row && row.jobs > 0);
  const most = Math.max(...bars.map(({ row }) => Math.max(row[`${key}_mean`], row[`${key}_p95`])));
  if (!(most > 0)) {
    put(`${place}-chart`, element('p', { class: 'empty' }, bars.length ? 'No job waited.' : 'No job ran.'));
    return;
  }
  const width = plotWidth();
  const [high, left, bottom, top] = [300, 72, 258, 12];
  const { marks, text } = findMarks(how, most);
  const y = (value) => bottom - (value / marks[marks.length - 1]) * (bottom - top);
  const slot = (width - left) / groups.length;
  const wide = Math.min(36, (slot * 0.8) / compared.scenarios.length);
  const svg = svgElement('svg', { viewBox: `0 0 ${width} ${high}`, class: 'plot', role: 'img', 'aria-label': `${title} by ${place === 'banks' ? 'bank' : 'size'}, the mean and the 95th percentile; the table below has the same data` },
    scale(marks, { left, right: width, y, text }));
  for (const { slot: at, at: series, scenario, group, row } of bars) {
    const x = left + at * slot + slot / 2 + (series - compared.scenarios.length / 2) * wide;
    const [mean, p95] = [row[`${key}_mean`], row[`${key}_p95`]];
    svg.append(svgElement('rect', { x: x + wide * 0.1, width: wide * 0.8, y: y(mean), height: bottom - y(mean), fill: colour(series) },
      svgElement('title', null, `${shown(group)}, ${nameOf(scenario)}: ${title} ${how(mean)}, 95 % ${how(p95)}`)),
    svgElement('line', { x1: x + wide / 2, x2: x + wide / 2, y1: y(p95), y2: y(mean), class: 'reach' }),
    svgElement('line', { x1: x + wide * 0.3, x2: x + wide * 0.7, y1: y(p95), y2: y(p95), class: 'reach' }));
  }
  const letters = Math.max(3, Math.floor(slot / 7));
  groups.forEach((group, at) => {
    const name = place === 'sizes' ? group.replace(' to ', '–').replace(/ cores?$/, '') : shown(group);
    svg.append(svgElement('text', { x: left + (at + 0.5) * slot, y: bottom + 20, 'text-anchor': 'middle' }, cut(name, letters)));
  });
  svg.append(svgElement('line', { x1: left, x2: width, y1: bottom, y2: bottom, class: 'axis' }));
  if (place === 'sizes') svg.append(svgElement('text', { x: width, y: bottom + 38, 'text-anchor': 'end', class: 'strong' }, 'cores →'));
  put(`${place}-chart`, [keysOfCompared(), svg, onlySome(more)].filter(Boolean));
}

// Draws for each bank a mark at its promised share, and for each scenario a dot at its delivered share.
function drawDumbbells() {
  const rows = KINDS_OF_GROUPS.banks;
  const of = findRowsByScenario(rows);
  const { groups, more } = chooseGroups('banks', rows);
  const pairs = groups.map((group) => [group, compared.scenarios.map((scenario) => of(scenario, group))]);
  const most = Math.max(0, ...pairs.flatMap(([, found]) => found.flatMap((row) => (row ? [row.promised, row.delivered ?? 0] : []))));
  if (!(most > 0)) {
    put('dumbbells', element('p', { class: 'empty' }, 'Nothing was delivered to any bank.'));
    return;
  }
  const width = plotWidth();
  const [left, right, top, each] = [Math.min(200, width * 0.28), width - 16, 8, 13];
  const one = compared.scenarios.length * each + 14;
  const bottom = top + groups.length * one;
  const { marks, text } = findMarks(part, most);
  const x = (value) => left + (value / marks[marks.length - 1]) * (right - left);
  const svg = svgElement('svg', { viewBox: `0 0 ${width} ${bottom + 30}`, class: 'plot', role: 'img', 'aria-label': 'Promised and delivered by bank; the table below has the same data' });
  for (const mark of marks) {
    svg.append(svgElement('line', { x1: x(mark), x2: x(mark), y1: top, y2: bottom, class: 'grid' }),
      svgElement('text', { x: x(mark), y: bottom + 20, 'text-anchor': mark === marks[marks.length - 1] ? 'end' : 'middle' }, text(mark)));
  }
  pairs.forEach(([group, found], slot) => {
    const from = top + slot * one;
    svg.append(svgElement('text', { x: left - 12, y: from + one / 2 + 4, 'text-anchor': 'end', class: 'strong' }, cut(shown(group), Math.floor(left / 8))));
    found.forEach((row, at) => {
      if (!row || row.delivered === null) return;
      const y = from + 7 + (at + 0.5) * each;
      const tooltip = `${shown(group)}, ${nameOf(compared.scenarios[at])}: promised ${part(row.promised)}, delivered ${part(row.delivered)}`;
      svg.append(svgElement('line', { x1: x(row.promised), x2: x(row.delivered), y1: y, y2: y, stroke: colour(at), 'stroke-width': 3 }),
        svgElement('circle', { cx: x(row.delivered), cy: y, r: 5, fill: colour(at) }, svgElement('title', null, tooltip)));
    });
    const promised = found.find(Boolean)?.promised;
    if (promised !== undefined) svg.append(svgElement('line', { x1: x(promised), x2: x(promised), y1: from + 5, y2: from + one - 5, class: 'mark' }));
  });
  put('dumbbells', [keysOfCompared(), element('p', { class: 'hint' }, 'The vertical line is the promised share, the dot the delivered share.'), svg, onlySome(more)].filter(Boolean));
}
