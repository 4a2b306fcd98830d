// SPDX-License-Identifier: LGPL-3.0-only
// The scenarios and their groups, and the formats of their measures, which are those of the command's tables.

const { simulation } = data;
const { scenarios } = simulation;
const groupsBy = (kindOf) => simulation.groups.filter(({ by }) => by === kindOf);

// The units of a duration.
const UNITS = [[DAY, 'd'], [HOUR, 'h'], [60, 'min'], [1, 's']];
const unitOf = (seconds) => UNITS.find(([size]) => seconds >= size * 1.5) || UNITS[3];
function span(seconds) {
  const [size, unit] = unitOf(seconds);
  const many = seconds / size;
  return `${many >= 100 || many === 0 ? grouped.format(many) : many.toFixed(1)} ${unit}`;
}
const ratio = (number) => (number >= 1000 ? grouped.format(number) : number.toFixed(2));
const part = (number) => `${(100 * number).toFixed(2)} %`;
const index = (number) => number.toFixed(3);

// The measures of scenarios: key, title, format.
const MEASURES = [
  ['wait_mean', 'Wait', span],
  ['wait_p95', 'Wait, 95 %', span],
  ['slowdown_mean', 'Slowdown', ratio],
  ['slowdown_p95', 'Slowdown, 95 %', ratio],
  ['utilisation', 'Used', part],
  ['jain', 'Jain', index],
  ['behind', 'Behind', span],
  ['makespan', 'Makespan', span],
];
const written = (of, value) => (value === null ? '–' : of(value));

const finely = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 6 });
// Returns round marks for the axis of a measure, and their format. Durations have the same unit.
function findMarks(of, most, least = 0) {
  const [size, unit] = of === span ? unitOf(most) : [of === part ? 0.01 : 1, of === part ? '%' : ''];
  const [from, to] = [least / size, most / size];
  const step = from > 0 ? findRoundNumbers(to - from)[1] : 0;
  const marks = from > 0 ? findRoundNumbers(to - from).map((mark) => mark + Math.floor(from / step) * step) : findRoundNumbers(to);
  if (marks[marks.length - 1] < to - 1e-9) marks.push(marks[marks.length - 1] + step);
  return { marks: marks.map((mark) => mark * size), text: (mark) => `${finely.format(mark / size)}${unit && ` ${unit}`}` };
}

// The scenarios that the charts show: the first DRAWN of the table, in its order.
const DRAWN = 7;
const compared = { scenarios: [], followers: [] };
const colour = (at) => kind(at);
const nameOf = (row) => shown(scenarios[row].scenario);
// Returns a name with its full text as tooltip, because a narrow column shows only the beginning.
const nameWithTooltip = (name) => element('span', { title: shown(name) }, shown(name));
const keysOfCompared = () => (scenarios.length > 1 ? makeLegend(compared.scenarios.map(nameOf), colour) : null);

// Returns a function that finds the row of a scenario and a group.
function findRowsByScenario(rows) {
  const found = new Map(scenarios.map(({ scenario }) => [scenario, new Map()]));
  rows.forEach((row) => found.get(row.scenario).set(row.group, row));
  return (scenario, group) => found.get(scenarios[scenario].scenario).get(group);
}
