// SPDX-License-Identifier: LGPL-3.0-only
// The table of the standings of all associations.

const FILTERS = [
  ['all', 'All', () => true],
  ['over', 'Above share', (ratio) => ratio > 1],
  ['under', 'Below share', (ratio) => ratio < 1],
  ['unused', 'Unused', (ratio, usage) => usage === 0],
];
const ranks = users.places[0];
const ratios = new Float64Array(userCount);
for (let user = 0; user < userCount; user++) ratios[user] = ratioOf(bankCount + user);

const COLUMNS = [
  { key: 'place', title: 'Place', kind: 'number', width: '9%', value: (user) => ranks[user] || Infinity, cell: (user) => (ranks[user] ? grouped.format(ranks[user]) : '–') },
  { key: 'user', title: 'User', width: '18%', text: (user) => users.name[user], cell: (user) => userLink(user) },
  { key: 'bank', title: 'Bank', width: '16%', text: (user) => banks.name[users.bank[user]], cell: (user) => shown(banks.name[users.bank[user]]) },
  { key: 'fairshare', title: 'Fair-share', kind: 'number', width: '11%', down: true, value: (user) => users.fairshare[user] ?? -1, cell: (user) => (users.fairshare[user] === null ? '–' : users.fairshare[user].toFixed(4)) },
  { key: 'shares', title: 'Shares', kind: 'number', width: '9%', down: true, value: (user) => users.shares[user] ?? -1, cell: (user) => (users.shares[user] === null ? 'parent' : grouped.format(users.shares[user])) },
  { key: 'usage', title: inHours ? 'Node-hours (decayed)' : 'Usage (decayed)', kind: 'number', width: '14%', down: true, value: (user) => users.usage[user], cell: (user) => figure(users.usage[user]) },
  { key: 'ratio', title: 'Used / share', kind: 'number', width: '12%', down: true, value: (user) => ratios[user], cell: (user) => element('span', { class: side(ratios[user]) }, times(ratios[user])) },
  { key: 'even', title: 'Back at share', kind: 'number', width: '11%', down: true, value: (user) => users.even_in[user] ?? (users.lost[user] === null ? -1 : Infinity), cell: (user) => formatEvenDay(user) },
];

function formatEvenDay(user) {
  if (users.lost[user] === null) return '–';
  return users.even_in[user] === null ? 'unknown' : decayDate(data.generated + users.even_in[user]);
}

let filter = 'all';
function passing() {
  if (filter === 'all' && focus.bank === ROOT) return null;
  const inside = focus.bank === ROOT ? null : findBanksWithin(focus.bank);
  const passes = FILTERS.find(([key]) => key === filter)[2];
  return (user) => (!inside || inside[users.bank[user]]) && passes(ratios[user], users.usage[user]);
}

function startStandings() {
  const onSelect = (rows) => {
    const where = focus.bank === ROOT ? '' : ` in ${shown(banks.name[focus.bank])}`;
    put('found', rows.length === userCount ? count(userCount, 'association')
      : `${grouped.format(rows.length)} of ${count(userCount, 'association')}${where}`);
  };
  const grid = new Grid('standings-table', {
    label: 'Table of standings', columns: COLUMNS, many: userCount, by: 'place', names: 'user', passing, onSelect,
    words: (user) => `${users.name[user]} ${banks.name[users.bank[user]]}`, none: 'No association matches.',
  });
  const choices = FILTERS.map(([key, title]) => element('label', null,
    element('input', { type: 'radio', name: 'filter', value: key, checked: key === 'all', change: () => { filter = key; grid.select(); } }), title));
  document.getElementById('filter').append(...choices);
  searchField('search', [grid]);
  focus.followers.push(() => grid.select());
}
