// SPDX-License-Identifier: LGPL-3.0-only
// The page of a user: the standing of each association, the level at which most was lost, and when its usage is back at its share.

function drawUser(name, arrived) {
  const found = associationsOf(name);
  const back = element('p', null, element('a', { href: '#standings' }, '← All standings'));
  const head = element('h2', { tabindex: '-1', id: 'person-title' }, found.length ? shown(name) : `No user ${shown(name)}`);
  const parts = found.map((user) => about(`, in ${shown(banks.name[users.bank[user]])}`, () => association(user)));
  put('person', element('div', { class: 'person-head' }, back, head), parts);
  if (arrived) head.focus({ preventScroll: true });
}

function association(user) {
  const path = pathOf(bankCount + user);
  const where = path.slice(0, -1).map((bank) => shown(nameOf(bank))).join(' / ');
  const ratio = ratios[user];
  const facts = [
    ['Place', ranks[user] ? `${ordinal(ranks[user])} of ${grouped.format(data.ranked)}` : 'none, inactive'],
    ['Fair-share', users.fairshare[user] === null ? '–' : users.fairshare[user].toFixed(4)],
    [inHours ? 'Node-hours (decayed)' : 'Usage (decayed)', figure(users.usage[user])],
    ['Used / share', times(ratio)],
    ['Share of the site', percent(promisedOf(bankCount + user))],
    ['Part of the site’s usage', percent(deliveredOf(bankCount + user))],
  ].map(([title, text]) => element('div', null, element('dt', null, title), element('dd', null, text)));
  return element('section', { 'aria-label': `In ${where}` },
    element('h3', null, `In ${where}`), element('dl', { class: 'tiles facts' }, facts),
    describeOutlook(user), listLevels(path, user),
    element('div', { class: 'pair' }, element('div', null, listRecordedUsage(user)), element('div', null, listPlaces(user))), listHeldJobs(user));
}

// Returns the sentence about the level at which most was lost, and the chart of its decaying usage.
function describeOutlook(user) {
  const lost = users.lost[user];
  if (lost === null) {
    const text = !ranks[user] ? 'An inactive association has no place.'
      : data.by_rank ? 'No level used more than its share.'
        : `The policy ${data.policy} has no usage that equals a share; less usage is always better.`;
    return element('p', { class: 'even-again' }, text);
  }
  const node = lost < 0 ? bankCount + user : lost;
  const even = users.even_usage[user];
  const seconds = users.even_in[user];
  const name = lost < 0 ? shown(users.name[user]) : nodeLabel(node);
  const idle = lost < 0 ? 'if idle' : 'if everyone below it is idle';
  if (even === null) return element('p', { class: 'even-again' }, `The fair-share is lowered most at ${name}, which used ${times(ratioOf(node))} its share.`);
  const when = seconds === null ? 'the time when the usage is back at this share is unknown' : `the usage is back at this share in ${duration(seconds)} ${idle}, while the others continue as before`;
  return element('div', null,
    element('p', { class: 'even-again' }, seconds === null ? null : element('strong', null, `Back at share on ${decayDate(data.generated + seconds)}. `),
      `The fair-share is lowered most at ${name}, which used ${amount(column(node, 'usage'))}. Given the usage of its siblings, the share of ${name} is ${amount(even)}; ${when}.`),
    drawDecay(node, user, even, seconds));
}

// Draws a decaying usage: in steps at the boundaries of periods, or continuously.
function drawDecay(node, user, even, seconds) {
  const { forgetting } = data;
  // The chart of a user needs the user's recorded usage by period.
  const known = isBank(node) || !data.usage || data.usage.users.length > 0;
  if (!forgetting || seconds === null || !known) return null;
  const used = column(node, 'usage');
  const own = isBank(node) ? [] : binsOf(user);
  const periods = isBank(node) ? forgetting.periods : users.periods[user];
  const bins = own.length ? own : [[0, used]];
  const points = [[0, used]];
  const first = forgetting.next - data.generated;
  let end;
  if (forgetting.half_life === null) {
    // Boundaries that passed uncounted decay the usage at the next count.
    if (forgetting.due > 0) points.push([0, usageLeft(bins, 0, periods)]);
    const steps = Math.min(60, Math.max(3, Math.ceil((seconds - first) / forgetting.period) + 2));
    for (let at = 0; at < steps; at++) points.push([first + at * forgetting.period, usageLeft(bins, at + 1, periods)]);
    end = first + (steps - 0.5) * forgetting.period;
  } else {
    end = Math.max(seconds * 1.25, forgetting.half_life);
    for (let at = 1; at <= 60; at++) points.push([(end * at) / 60, used * 2 ** (-(end * at) / 60 / forgetting.half_life)]);
  }
  const stepped = forgetting.half_life === null;
  const crossed = seconds > 0 ? Math.round((seconds - first) / forgetting.period) + 1 : 0;
  const width = plotWidth();
  const [high, from, bottom, top, right] = [230, 64, 196, 14, width - 20];
  const marks = findRoundNumbers(amountOf(Math.max(used, even)));
  const x = (at) => from + (at / end) * (right - from);
  const y = (usage) => bottom - (amountOf(usage) / marks[marks.length - 1]) * (bottom - top);
  let line = `M${x(0)} ${y(used)}`;
  points.slice(1).forEach(([at, usage]) => { line += stepped ? `H${x(at)}V${y(usage)}` : `L${x(at)} ${y(usage)}`; });
  if (stepped) line += `H${x(end)}`;
  const svg = svgElement('svg', { viewBox: `0 0 ${width} ${high}`, class: 'plot', role: 'img', 'aria-label': `The decay of the usage of ${shown(nameOf(node))}, and when it is back at its share` },
    scale(marks, { left: from, right, y: (mark) => bottom - (mark / marks[marks.length - 1]) * (bottom - top) }));
  const days = stepped ? points.slice(1).map(([at]) => at) : [0.25, 0.5, 0.75, 1].map((part) => end * part);
  // Dates that would overlap are left out.
  let free = from + 90;
  for (const at of days) {
    if (x(at) < free || x(at) > right - 20) continue;
    free = x(at) + 110;
    svg.append(svgElement('text', { x: x(at), y: bottom + 20, 'text-anchor': 'middle' }, decayDate(data.generated + at)));
  }
  svg.append(svgElement('text', { x: from, y: bottom + 20 }, 'now'),
    svgElement('line', { x1: from, x2: right, y1: y(even), y2: y(even), class: 'even' }),
    svgElement('text', { x: right, y: y(even) - 6, 'text-anchor': 'end', class: 'strong' }, `share: ${figure(even)}`),
    svgElement('path', { d: line, class: 'course' }),
    svgElement('circle', { cx: x(seconds), cy: y(Math.min(even, stepped ? usageLeft(bins, crossed, periods) : even)), r: 4, class: 'gain' }));
  return svg;
}

function listLevels(path, user) {
  const rows = path.slice(1).map((node) => {
    const ratio = ratioOf(node);
    const name = isBank(node)
      ? element('a', { href: `#bank=${encodeURIComponent(nameOf(node))}` }, shown(nameOf(node))) : shown(nameOf(node));
    const worst = users.lost[user] === (isBank(node) ? node : -1);
    return [name, isBank(node) ? 'bank' : 'user', percent(column(node, 'share')), percent(column(node, 'part')),
      meter(column(node, 'part'), column(node, 'share'), ratio), element('span', { class: side(ratio) }, times(ratio)), worst ? 'lowers the fair-share most' : ''];
  });
  return table('From the bank below the root down; the mark is at the share', [['Level', 'name'], ['Kind'], ['Share', 'number'], ['Used', 'number'], ['Used, with the share', 'wide-cell'], ['Used / share', 'number'], ['Remark']], rows, { class: 'bars' });
}

function listRecordedUsage(user) {
  const bins = binsOf(user);
  if (!data.usage || bins.length === 0) return element('p', { class: 'empty' }, 'No usage is recorded by period.');
  const whole = bins.reduce((sum, [, usage]) => sum + usage, 0);
  const rows = bins.map(([period, usage]) => [decayDate(data.usage.from[0] - period * data.usage.length), figure(usage), percent(usage / whole)]);
  return table('The usage by period, after decay', [['Period from'], [inHours ? 'Node-hours (decayed)' : 'Usage (decayed)', 'number'], ['Part', 'number']], rows);
}

function listPlaces(user) {
  const rows = data.policies.map(({ policy }, at) => {
    const place = users.places[at][user];
    const gain = at && place && ranks[user] ? change(ranks[user] - place) : '';
    return [policy, place ? ordinal(place) : '–', gain];
  });
  return table('By policy', [['Policy'], ['Place', 'number'], ['Places', 'number']], rows);
}

function listHeldJobs(user) {
  const held = data.held && data.held.answer;
  const jobs = held ? held.jobs.filter((job) => job.user === users.name[user] && job.bank === banks.name[users.bank[user]]) : [];
  return jobs.length ? element('div', null, element('h3', null, count(jobs.length, 'held job')), jobsTable(jobs, 0)) : null;
}
