// SPDX-License-Identifier: LGPL-3.0-only
// What was used when: hour by hour, day by day, ... out of the jobs, or by half-life period as it is counted; of the banks right
// below the one in focus, or of its users.

const SERIES = 7;
const STEPS = { hour: 'Hour', day: 'Day', week: 'Week', month: 'Month' };

// Out of the jobs, the oldest first.
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
    lead: (who) => `${inHours ? 'Node-hours' : 'Usage'} that jobs of ${who} used in each ${step}, while they ran. Jobs count when they have ended.`,
  };
}

// By period, the oldest first; the data have the present one first.
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
    lead: (who) => `${inHours ? 'Node-hours' : 'Usage'} that ${who} used in each period of ${duration(length)}, before any of it was forgotten: a job counts where it ended. The last one is still going on.`,
  };
}

const histories = [];
if (data.course) histories.push(ofJobs(data.course));
if (data.usage && data.usage.banks.length) histories.push(ofPeriods(data.usage));

// [name, usage over time] of what is right below a bank, the largest first, the small ones together.
function series(history, bank) {
  const total = history.bank(bank);
  let list = banksBelow[bank].map((inner) => [shown(banks.name[inner]), history.bank(inner)]);
  if (list.length === 0 && history.users) {
    list = history.users(firstUser[bank], firstUser[bank + 1]).map((values, at) => [shown(users.name[firstUser[bank] + at]), values]);
  }
  const sum = ([, values]) => values.reduce((all, value) => all + value, 0);
  list = list.map((entry) => [entry, sum(entry)]).filter(([, all]) => all > 0).sort((a, b) => b[1] - a[1]).map(([entry]) => entry);
  const kept = list.slice(0, SERIES);
  const rest = total.map((all, at) => Math.max(0, all - kept.reduce((part, [, values]) => part + values[at], 0)));
  if (rest.some((value, at) => value > total[at] * 1e-6)) {
    const others = list.length > SERIES ? `${grouped.format(list.length - SERIES)} others` : kept.length ? 'users right below' : 'all users';
    kept.push([others, rest, true]);
  }
  return { list: kept, total };
}

function drawUsage(bank) {
  const who = shown(banks.name[bank]);
  const history = histories[Number(document.getElementById('usage-by').value)];
  if (!history) {
    put('usage-chart', element('p', { class: 'empty' }, 'No usage is recorded: the tree comes from a document, or nothing has been counted yet.'));
    return;
  }
  const { list, total } = series(history, bank);
  if (!total.some((value) => value > 0)) {
    put('usage-chart', element('p', { class: 'empty' }, `Nothing is recorded below ${who}.`));
    return;
  }
  const colour = (at) => kind(list[at][2] ? SERIES : at);
  const svg = stacked({
    label: `Usage of ${who} over time; the table below says the same`,
    list: list.map(([name, values]) => [name, values.map(amountOf)]),
    total: total.map(amountOf),
    labels: history.labels,
    colour,
    told: (which, at) => `${list[which][0]}: ${amount(list[which][1][at])}, ${history.spans[at]}`,
  });
  // The newest first, as people ask for it.
  const rows = total.map((all, at) => [history.spans[at], figure(all), ...list.map(([, values]) => figure(values[at]))]).reverse();
  const columns = [[history.title], ['All', 'number'], ...list.map(([name]) => [name, 'number'])];
  put('usage-chart', element('p', { class: 'lead' }, history.lead(who)), keys(list.map(([name]) => name), colour), svg,
    element('details', null, element('summary', null, 'The figures'), table(`${unitName} over time`, columns, rows)));
}

function startUsage() {
  const select = document.getElementById('usage-by');
  select.append(...histories.map(({ title }, at) => element('option', { value: at }, title)));
  select.addEventListener('change', () => drawUsage(focus.bank));
  document.getElementById('usage-controls').hidden = histories.length < 2;
  focus.followers.push(drawUsage);
}
