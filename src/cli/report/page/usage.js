// SPDX-License-Identifier: LGPL-3.0-only
// What was used when, by half-life period: the banks right below the one in focus, or its users.

const SERIES = 7;

// [name, usage by period] of what is right below a bank, the largest first, the small ones together.
function series(bank) {
  const periods = data.usage.banks.length;
  const of = (value) => Array.from({ length: periods }, (_, period) => value(period));
  const inner = banksBelow[bank];
  const total = of((period) => data.usage.banks[period][bank]);
  let list = inner.map((below) => [shown(banks.name[below]), of((period) => data.usage.banks[period][below])]);
  if (inner.length === 0 && data.usage.users.length >= periods) {
    const { factor } = data.forgetting;
    for (let user = firstUser[bank]; user < firstUser[bank + 1]; user++) {
      list.push([shown(users.name[user]), of((period) => (factor > 0 || period === 0 ? data.usage.users[period][user] / factor ** period : 0))]);
    }
  }
  const sum = ([, values]) => values.reduce((all, value) => all + value, 0);
  list = list.map((entry) => [entry, sum(entry)]).filter(([, all]) => all > 0).sort((a, b) => b[1] - a[1]).map(([entry]) => entry);
  const kept = list.slice(0, SERIES);
  const rest = total.map((all, period) => Math.max(0, all - kept.reduce((part, [, values]) => part + values[period], 0)));
  if (rest.some((value, period) => value > total[period] * 1e-6)) {
    const others = list.length > SERIES ? `${grouped.format(list.length - SERIES)} others` : kept.length ? 'users right below' : 'all users';
    kept.push([others, rest]);
  }
  return { list: kept, total };
}

// Round numbers for an axis that ends above the most.
function ticks(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, at) => at * step);
}

function drawUsage(bank) {
  if (!data.usage || !data.usage.banks.length) {
    put('usage-chart', element('p', { class: 'empty' }, 'No usage is recorded by period: the tree comes from a document, or nothing has been counted yet.'));
    return;
  }
  const { list, total } = series(bank);
  const most = Math.max(...total.map(amountOf));
  if (!(most > 0)) {
    put('usage-chart', element('p', { class: 'empty' }, `Nothing is recorded below ${shown(banks.name[bank])}.`));
    return;
  }
  const periods = total.length;
  const colour = (at) => kind(list[at][0].endsWith(' others') || at >= SERIES ? SERIES : at);
  const width = plotWidth();
  const [high, left, bottom, top] = [300, 64, 262, 12];
  const marks = ticks(most);
  const y = (value) => bottom - (value / marks[marks.length - 1]) * (bottom - top);
  const slot = (width - left) / periods;
  const wide = Math.min(slot * 0.66, 120);
  const svg = drawn('svg', { viewBox: `0 0 ${width} ${high}`, class: 'plot', role: 'img', 'aria-label': `Usage of ${shown(banks.name[bank])} by period; the table below says the same` });
  for (const mark of marks) {
    svg.append(drawn('line', { x1: left, x2: width, y1: y(mark), y2: y(mark), class: 'grid' }),
      drawn('text', { x: left - 10, y: y(mark) + 4, 'text-anchor': 'end' }, mark >= 1e6 ? short.format(mark / 1e6) + ' M' : short.format(mark)));
  }
  const every = Math.ceil(85 / slot);
  for (let period = periods - 1; period >= 0; period--) {
    const x = left + (periods - 1 - period) * slot + (slot - wide) / 2;
    let base = 0;
    list.forEach(([name, values], at) => {
      const value = amountOf(values[period]);
      if (value <= 0) return;
      const bar = drawn('rect', { x, width: wide, y: y(base + value), height: y(base) - y(base + value), fill: colour(at) },
        drawn('title', null, `${name}: ${amount(values[period])} from ${day(data.usage.from[period])}`));
      svg.append(bar);
      base += value;
    });
    if ((periods - 1 - period) % every === 0) {
      svg.append(drawn('text', { x: x + wide / 2, y: bottom + 20, 'text-anchor': 'middle' }, day(data.usage.from[period])));
    }
  }
  svg.append(drawn('line', { x1: left, x2: width, y1: bottom, y2: bottom, class: 'axis' }));
  const keys = list.map(([name], at) => {
    const swatch = element('i', { 'aria-hidden': 'true' });
    swatch.style.backgroundColor = colour(at);
    return element('li', null, swatch, name);
  });
  const newest = Array.from({ length: periods }, (_, period) => period);
  const rows = newest.map((period) => [`${day(data.usage.from[period])} to ${day(data.usage.from[period] + data.usage.length)}`,
    figure(total[period]), ...list.map(([, values]) => figure(values[period]))]);
  const columns = [['Period'], ['All', 'number'], ...list.map(([name]) => [name, 'number'])];
  put('usage-chart',
    element('p', { class: 'lead' }, `${inHours ? 'Node-hours' : 'Usage'} that ${shown(banks.name[bank])} used in each period of ${duration(data.usage.length)}, before any of it was forgotten. The last one is still going on.`),
    element('ul', { class: 'keys' }, keys), svg,
    element('details', null, element('summary', null, 'The figures'), table(`${unitName} by period`, columns, rows)));
}

function startUsage() {
  focus.followers.push(drawUsage);
}
