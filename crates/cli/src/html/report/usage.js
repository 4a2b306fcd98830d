// SPDX-License-Identifier: LGPL-3.0-only
// Draws the usage over time of the banks directly below the selected bank, or of its users: by hour, day, week or month from the job
// records, or by half-life period from the recorded usage.

const SERIES = 7;
const STEPS = { hour: 'Hour', day: 'Day', week: 'Week', month: 'Month' };

// Returns the usage from the job records, the oldest first.
function ofJobs({ step, labels, banks: rows, users: cells }) {
  return {
    title: STEPS[step],
    labels,
    spans: labels,
    bank: (bank) => rows.map((row) => row[bank]),
    users: cells && ((from, to) => {
      const series = Array.from({ length: to - from }, () => new Array(labels.length).fill(0));
      for (let at = 0; at < cells.length; at += 3) {
        if (cells[at] >= from && cells[at] < to) series[cells[at] - from][cells[at + 1]] = cells[at + 2];
      }
      return series;
    }),
    lead: (name) => `${inHours ? 'Node-hours' : 'Usage'} of jobs of ${name} in each ${step} while they ran, without decay. Only ended jobs count.`,
  };
}

// Returns the usage by half-life period, the oldest first. The data have the newest period first.
function ofPeriods({ from, length, banks: rows, users: bins }) {
  const { factor } = data.forgetting;
  const periods = rows.map((_, at) => rows.length - 1 - at);
  return {
    title: 'Half-life period',
    labels: periods.map((period) => decayDate(from[period])),
    spans: periods.map((period) => `${decayDate(from[period])} to ${decayDate(from[period] + length)}`),
    bank: (bank) => periods.map((period) => rows[period][bank]),
    users: bins.length >= rows.length && ((first, last) => Array.from({ length: last - first }, (_, at) => periods.map((period) =>
      (factor > 0 || period === 0 ? bins[period][first + at] / factor ** period : 0)))),
    lead: (name) => `${inHours ? 'Node-hours' : 'Usage'} of ${name} in each period of ${unrounded(length)}, without decay. A job counts in the period in which it ended. The last period has not ended yet.`,
  };
}

const histories = [];
if (data.course) histories.push(ofJobs(data.course));
if (data.usage && data.usage.banks.length) histories.push(ofPeriods(data.usage));

// Returns [name, usage over time] of the banks or users directly below a bank. The largest come first; the small ones are summed.
function series(history, bank) {
  const total = history.bank(bank);
  let list = banksBelow[bank].map((inner) => [shown(banks.name[inner]), history.bank(inner)]);
  if (list.length === 0 && history.users) {
    list = history.users(firstUser[bank], firstUser[bank + 1]).map((values, at) => [shown(users.name[firstUser[bank] + at]), values]);
  }
  const sum = ([, values]) => values.reduce((all, value) => all + value, 0);
  list = list.map((entry) => [entry, sum(entry)]).filter(([, all]) => all > 0).sort((a, b) => b[1] - a[1]).map(([entry]) => entry);
  const shownSeries = list.slice(0, SERIES);
  const remaining = total.map((all, at) => Math.max(0, all - shownSeries.reduce((part, [, values]) => part + values[at], 0)));
  if (remaining.some((value, at) => value > total[at] * 1e-6)) {
    const others = list.length > SERIES ? `${grouped.format(list.length - SERIES)} others` : shownSeries.length ? 'users directly below' : 'all users';
    shownSeries.push([others, remaining, true]);
  }
  return { list: shownSeries, total };
}

function drawUsage(bank) {
  const name = shown(banks.name[bank]);
  const history = histories[Number(document.getElementById('usage-by').value)];
  if (!history) {
    put('usage-chart', element('p', { class: 'empty' }, 'No usage is recorded: the tree comes from a document, or no usage was counted yet.'));
    return;
  }
  const { list, total } = series(history, bank);
  if (!total.some((value) => value > 0)) {
    put('usage-chart', element('p', { class: 'empty' }, `No usage is recorded below ${name}.`));
    return;
  }
  const colour = (at) => kind(list[at][2] ? SERIES : at);
  const svg = drawStackedBars({
    label: `Usage of ${name} over time; the table below has the same data`,
    list: list.map(([title, values]) => [title, values.map(amountOf)]),
    total: total.map(amountOf),
    labels: history.labels,
    colour,
    tooltip: (which, at) => `${list[which][0]}: ${amount(list[which][1][at])}, ${history.spans[at]}`,
  });
  // The newest row comes first, because people look for it.
  const rows = total.map((all, at) => [history.spans[at], figure(all), ...list.map(([, values]) => figure(values[at]))]).reverse();
  const columns = [[history.title], ['All', 'number'], ...list.map(([title]) => [title, 'number'])];
  put('usage-chart', element('p', { class: 'lead' }, history.lead(name)), makeLegend(list.map(([title]) => title), colour), svg,
    element('details', null, element('summary', null, 'The figures'), table(`${unitName} over time`, columns, rows)));
}

function startUsage() {
  const select = document.getElementById('usage-by');
  select.append(...histories.map(({ title }, at) => element('option', { value: at }, title)));
  select.addEventListener('change', () => drawUsage(focus.bank));
  document.getElementById('usage-controls').hidden = histories.length < 2;
  focus.followers.push(drawUsage);
}
