// SPDX-License-Identifier: LGPL-3.0-only
// Builds the page: the summary, the trace, and the theme.

// Returns the settings that are the same in all scenarios. The names of the scenarios show the others.
function commonSettings() {
  const [first, ...rest] = simulation.settings.map(({ settings }) => settings);
  return Object.entries(first || {}).filter(([key, value]) => rest.every((other) => other[key] === value))
    .map(([key, value]) => `${shown(key)} ${shown(value)}`);
}

function drawHead() {
  const cluster = `${count(simulation.nodes, 'node')} with ${count(simulation.cores, 'core')}`;
  put('meta', [shown(simulation.trace), `${count(simulation.jobs, 'job')} on ${cluster}`, ...commonSettings()].join(' · '));
  put('made', `Made by ${data.program} from ${shown(simulation.trace)}. This page sends no data.`);
  const tiles = [
    ['Jobs', grouped.format(simulation.jobs), simulation.skipped ? `${grouped.format(simulation.skipped)} left out` : ''],
    ['Cluster', count(simulation.cores, 'core'), count(simulation.nodes, 'node')],
    ['Scenarios', grouped.format(scenarios.length), ''],
  ];
  for (const [title, key, what] of [['Least wait', 'wait_mean', span], ['Most even', 'jain', index], ['Most used', 'utilisation', part]]) {
    const ran = scenarios.filter((scenario) => scenario.jobs > 0 && scenario[key] !== null);
    const sign = key === 'wait_mean' ? 1 : -1;
    const best = ran.reduce((first, other) => (first && sign * first[key] <= sign * other[key] ? first : other), null);
    if (best) tiles.push([title, what(best[key]), scenarios.length > 1 ? cut(shown(best.scenario), 40) : '']);
  }
  put('tiles', tiles.map(([what, text, note]) => element('div', null, element('dt', null, what), element('dd', null, text),
    note ? element('dd', { class: 'note' }, note) : null)));
}

function drawHistory() {
  const { jobs, users, banks, first_submit: first, last_submit: last, core_seconds: all } = simulation;
  const long = last - first;
  const rows = [
    ['Jobs', grouped.format(jobs)],
    ['Users', grouped.format(users)],
    ['Banks', grouped.format(banks)],
    ['From the first submission to the last', span(long)],
    ['Between submissions, on average', written(span, simulation.interarrival_mean)],
    ['Run time, on average', written(span, simulation.run_mean)],
    ['Cores, on average', written((cores) => cores.toFixed(1), simulation.cores_mean)],
    ['Core-hours in all', grouped.format(all / HOUR)],
    ['Core-seconds requested / available in that time', long > 0 ? part(all / (simulation.cores * long)) : '–'],
    ['Recorded wait, on average', written(span, simulation.recorded_wait_mean)],
    ['Left out: run time, size or summary line is missing', grouped.format(simulation.skipped)],
  ];
  put('history-table', table('The submitted jobs', [['Property'], ['', 'number']].map(([title, kindOf]) => [title || 'Value', kindOf]), rows, { class: 'facts-table' }));
}

const grids = [startScenarios(), startGroups('banks', 'Bank'), startGroups('sizes', 'Size')];
compared.followers.push(drawDumbbells);
startTrade();
const redraw = () => grids.forEach((grid) => grid.select());
startTheme(redraw);
startPrint(redraw);
drawHead();
drawHistory();
redraw();
let drawnFor = plotWidth();
startWidth(() => {
  if (drawnFor === plotWidth()) return;
  drawnFor = plotWidth();
  compared.followers.forEach((follow) => follow());
});
ready();
