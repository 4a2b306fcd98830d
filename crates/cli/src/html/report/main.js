// SPDX-License-Identifier: LGPL-3.0-only
// Builds the page: the figures at the top, the theme, and the targets of addresses.

function drawTiles() {
  let over = 0;
  for (let user = 0; user < userCount; user++) if (ratios[user] > 1) over += 1;
  const tiles = [
    ['Associations', grouped.format(userCount), data.ranked === userCount ? '' : `${grouped.format(userCount - data.ranked)} inactive`],
    ['Banks', grouped.format(bankCount), ''],
    [inHours ? 'Node-hours after decay' : 'Usage after decay', figure(banks.usage[ROOT]), ''],
    ['Above their share', grouped.format(over), percent(userCount ? over / userCount : 0)],
  ];
  const { forgetting, held } = data;
  if (forgetting && forgetting.next) tiles.push(['Next decay', decayDate(forgetting.next), `keeps ${percent(forgetting.factor)}`]);
  if (data.stale !== null) tiles.push(['Stored fair-shares', data.stale ? `${grouped.format(data.stale)} stale` : 'up to date', data.stale ? '“flux fairshare update” stores the current ones' : '']);
  if (held && held.answer) tiles.push(['Held jobs', grouped.format(held.answer.held), `${grouped.format(held.answer.pending)} pending`]);
  put('tiles', tiles.map(([title, text, note]) => element('div', null, element('dt', null, title), element('dd', null, text),
    note ? element('dd', { class: 'note' }, note) : null)));
}

function drawHead() {
  const options = Object.entries(data.options).map(([name, value]) => `${name} ${value}`).join(', ');
  put('meta', `${shown(data.head ? data.head.replace(/\.$/, '') : data.source)} · ${moment(data.generated)} · policy ${data.policy}`);
  put('made', `Made by ${data.program} from ${shown(data.source)} at ${moment(data.generated)}; ${options}. This page sends no data.`);
}

function redraw() {
  drawLegend();
  drawHead();
  drawTiles();
  selectBank(focus.bank);
}

let drawnFor = 0;
// Redraws the charts if the width of the page changed.
function follow() {
  if (drawnFor === plotWidth()) return;
  drawnFor = plotWidth();
  selectBank(focus.bank);
}

// Shows the target of the address: #user=NAME, #bank=NAME, or a section.
function route(arrived) {
  const [what, name] = location.hash.slice(1).split(/=(.*)/s);
  let decoded = '';
  try { decoded = decodeURIComponent(name || ''); } catch { /* not an address of this page */ }
  const person = what === 'user';
  document.getElementById('overview').hidden = person;
  document.getElementById('person').hidden = !person;
  document.title = person ? `${shown(decoded)} – ${data.title}` : data.title;
  if (person) {
    drawUser(decoded, arrived);
    if (arrived) scrollTo(0, 0);
    return;
  }
  const bank = what === 'bank' ? banks.name.indexOf(decoded) : ROOT;
  const wanted = bank < 0 ? ROOT : bank;
  if (what === 'bank' || what === '') {
    if (wanted !== focus.bank) selectBank(wanted);
  } else document.getElementById(what)?.scrollIntoView();
  follow();
}

startTheme(() => {
  icicle.cells = new Map();
  redraw();
  if (!document.getElementById('person').hidden) route(false);
});
startTree();
startStandings();
startPolicies();
startUsage();
startHeld();
startBudgets();
startPrint(redraw);
redraw();
drawnFor = plotWidth();
addEventListener('hashchange', () => route(true));
route(true);
startWidth(() => (document.getElementById('person').hidden ? follow() : route(false)));
ready();
