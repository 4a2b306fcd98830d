// SPDX-License-Identifier: LGPL-3.0-only
// Compares two policies: the associations that move most, as lines from place to place, and the moves by bank.

const MOVERS = 10;
const FAINT = 60;

function findMoves(from, to) {
  const [before, after] = [users.places[from], users.places[to]];
  const inside = focus.bank === ROOT ? null : findBanksWithin(focus.bank);
  const list = [];
  for (let user = 0; user < userCount; user++) {
    if (!before[user] || !after[user] || (inside && !inside[users.bank[user]])) continue;
    list.push({ user, before: before[user], after: after[user], gain: before[user] - after[user] });
  }
  return list;
}

function drawSlopes(shownMoves, faint, [from, to], high) {
  const width = Math.min(620, plotWidth());
  const label = Math.min(230, width * 0.34);
  const [left, right, top, bottom] = [label, width - label, 34, high - 14];
  const last = Math.max(2, data.ranked);
  const y = (place) => top + ((place - 1) / (last - 1)) * (bottom - top);
  const names = [from, to].map((at) => data.policies[at].policy);
  const svg = svgElement('svg', { viewBox: `0 0 ${width} ${high}`, class: 'plot', role: 'img', 'aria-label': `Places by ${names[0]} on the left, by ${names[1]} on the right; the table next to it has the same data` });
  svg.append(
    svgElement('text', { x: left, y: 14, 'text-anchor': 'end', class: 'strong' }, names[0]),
    svgElement('text', { x: right, y: 14, class: 'strong' }, names[1]),
    svgElement('line', { x1: left, x2: left, y1: top - 6, y2: bottom + 6, class: 'axis' }),
    svgElement('line', { x1: right, x2: right, y1: top - 6, y2: bottom + 6, class: 'axis' }),
  );
  for (const move of faint) {
    svg.append(svgElement('line', { x1: left, x2: right, y1: y(move.before), y2: y(move.after), class: 'faint' }));
  }
  for (const [key, x, anchor, away] of [['before', left, 'end', -10], ['after', right, 'start', 10]]) {
    const labels = shownMoves.map((move) => ({ move, y: y(move[key]) }));
    for (const { move, y: place, at } of separateLabels(labels, 15, bottom + 4)) {
      const kindOf = move.gain > 0 ? 'gain' : move.gain < 0 ? 'loss' : 'faint';
      const name = cut(shown(users.name[move.user]), label > 180 ? 18 : 9);
      const text = key === 'before' ? `${name}  ${grouped.format(move[key])}` : `${grouped.format(move[key])}  ${name}`;
      svg.append(
        svgElement('circle', { cx: x, cy: place, r: 3, class: kindOf }),
        svgElement('line', { x1: x + away * 0.35, x2: x + away * 0.85, y1: place, y2: at, class: 'grid' }),
        svgElement('text', { x: x + away, y: at + 4, 'text-anchor': anchor, class: 'strong' }, text),
      );
    }
  }
  for (const move of shownMoves) {
    const kindOf = move.gain > 0 ? 'gain' : move.gain < 0 ? 'loss' : 'faint';
    svg.append(svgElement('path', { d: `M${left} ${y(move.before)}L${right} ${y(move.after)}`, class: kindOf }));
  }
  return svg;
}

const signed = (number) => (number > 0 ? `+${grouped.format(number)}` : number < 0 ? `−${grouped.format(-number)}` : '0');
const change = (gain) => element('span', { class: gain > 0 ? 'up' : gain < 0 ? 'down' : '' }, signed(gain));

function drawPolicies() {
  const [from, to] = ['policy-from', 'policy-to'].map((id) => Number(document.getElementById(id).value));
  const list = findMoves(from, to);
  const moved = list.filter((move) => move.gain !== 0).sort((a, b) => b.gain - a.gain || a.user - b.user);
  const winners = moved.filter((move) => move.gain > 0);
  const losers = moved.filter((move) => move.gain < 0).reverse();
  const fact = data.policies[to];
  const tau = from === 0 && focus.bank === ROOT && typeof fact.kendall_tau === 'number' ? `, Kendall’s τ ${fact.kendall_tau.toFixed(3)}` : '';
  put('compared', `${grouped.format(winners.length)} would gain, ${grouped.format(losers.length)} lose, ` +
    `${grouped.format(list.length - moved.length)} keep their place${tau}`);
  if (moved.length === 0) {
    const text = list.length ? 'No association moves: both policies give the same places.' : 'No association is ranked.';
    put('slopes', element('p', { class: 'empty' }, text), listUnrankedPolicies());
    return;
  }
  const most = [...winners.slice(0, MOVERS), ...losers.slice(0, MOVERS).reverse()];
  const drawnMoves = list.length <= 2 * MOVERS ? list : most;
  const chosen = new Set(drawnMoves);
  const stride = Math.max(1, Math.ceil(list.length / FAINT));
  const faint = list.filter((move, at) => at % stride === 0 && !chosen.has(move));
  const high = Math.max(240, 80 + most.length * 36);
  const rows = most.map((move) => [userLink(move.user), shown(banks.name[users.bank[move.user]]),
    grouped.format(move.before), grouped.format(move.after), change(move.gain)]);
  const movers = table('The largest moves', [['User', 'name'], ['Bank', 'name'], ['From', 'number'], ['To', 'number'], ['Places', 'number']], rows);
  put('slopes', element('div', { class: 'pair' }, element('div', null, drawSlopes(drawnMoves, faint, [from, to], high)), element('div', null, movers)),
    bankMoves(list), listUnrankedPolicies());
}

// Returns the table of the banks directly below the selected bank: how many associations gain and lose, and the mean move.
function bankMoves(list) {
  const inner = banksBelow[focus.bank];
  if (inner.length === 0) return element('div');
  const top = new Int32Array(bankCount).fill(-1);
  for (const bank of inner) top[bank] = bank;
  for (let bank = focus.bank + 1; bank < bankCount; bank++) {
    if (top[bank] < 0 && banks.parent[bank] !== null && top[banks.parent[bank]] >= 0) top[bank] = top[banks.parent[bank]];
  }
  const sums = new Map(inner.map((bank) => [bank, { all: 0, up: 0, down: 0, gain: 0 }]));
  for (const move of list) {
    const sum = sums.get(top[users.bank[move.user]]);
    if (!sum) continue;
    sum.all += 1;
    sum.gain += move.gain;
    if (move.gain > 0) sum.up += 1;
    if (move.gain < 0) sum.down += 1;
  }
  const listed = [...sums].filter(([, sum]) => sum.all > 0)
    .sort((a, b) => b[1].gain / b[1].all - a[1].gain / a[1].all || a[0] - b[0]);
  const shownBanks = listed.length > 20 ? [...listed.slice(0, 10), ...listed.slice(-10)] : listed;
  const rows = shownBanks.map(([bank, sum]) => [shown(banks.name[bank]), grouped.format(sum.all), grouped.format(sum.up),
    grouped.format(sum.down), change(Math.round(sum.gain / sum.all))]);
  const caption = `By bank${listed.length > 20 ? ', the ten at either end' : ''}; places are the mean over all associations below it`;
  return element('details', { open: listed.length <= 20 }, element('summary', null, 'Banks'),
    table(caption, [['Bank', 'name'], ['Users', 'number'], ['Gain', 'number'], ['Lose', 'number'], ['Places', 'number']], rows));
}

function listUnrankedPolicies() {
  const missing = Object.entries(data.without);
  return missing.length === 0 ? element('div')
    : element('p', { class: 'hint' }, missing.map(([policy, why]) => `Without ${policy}: ${shown(why)}.`).join(' '));
}

function startPolicies() {
  // The policy that differs most is selected first.
  const agreement = data.policies.map(({ kendall_tau: tau }) => (typeof tau === 'number' ? tau : 1));
  const other = agreement.indexOf(Math.min(...agreement));
  for (const [id, chosen] of [['policy-from', 0], ['policy-to', other]]) {
    const select = document.getElementById(id);
    select.append(...data.policies.map(({ policy }, at) => element('option', { value: at, selected: at === chosen }, policy)));
    select.addEventListener('change', drawPolicies);
  }
  focus.followers.push(drawPolicies);
}
