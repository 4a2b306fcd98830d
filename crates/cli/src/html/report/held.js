// SPDX-License-Identifier: LGPL-3.0-only
// The held jobs, from the plugin's answer when the report was made.

const LIMITS = {
  'max-run-jobs-queue': 'running jobs of an association in a queue',
  'max-sched-jobs-queue-limit': 'jobs of an association in SCHED in a queue',
  'max-sched-nodes-queue-limit': 'nodes of an association in SCHED in a queue',
  'max-sched-cores-queue-limit': 'cores of an association in SCHED in a queue',
  'max-resources-queue': 'nodes of an association in a queue',
  'max-running-jobs-user-limit': 'running jobs of an association',
  'max-sched-jobs-user-limit': 'jobs of an association in SCHED',
  'max-resources-user-limit': 'running nodes or cores of an association',
};

function drawHeld(bank) {
  const held = data.held && data.held.answer;
  if (!held) {
    const why = data.held ? data.held.unknown : 'The option --no-jobs was given, so the plugin was not queried.';
    put('held-jobs', element('p', { class: 'empty' }, shown(why)));
    return;
  }
  const owner = held.everybody ? '' : ' of yours';
  const lead = element('p', { class: 'lead' }, `At ${moment(held.when)} ${count(held.held, 'job')}${owner} ${held.held === 1 ? 'was' : 'were'} held by limits` +
    ` and ${grouped.format(held.pending)} pending${held.running === null ? '' : `, ${grouped.format(held.running)} running`}.`);
  if (held.held === 0) {
    put('held-jobs', lead);
    return;
  }
  const most = Math.max(1, ...held.by_limit.map(([, jobs]) => jobs));
  const bar = (jobs) => {
    const filled = element('i');
    filled.style.width = `${(jobs / most) * 100}%`;
    filled.style.backgroundColor = kind(0);
    return element('span', { class: 'meter', 'aria-hidden': 'true' }, filled);
  };
  const limits = held.by_limit.map(([limit, jobs]) => [shown(limit), LIMITS[limit] || '', bar(jobs), grouped.format(jobs)]);
  put('held-jobs', lead,
    table('Held by limit; several limits may hold a job', [['Limit'], ['Counts'], ['', 'wide-cell'], ['Jobs', 'number']].map(([title, kindOf]) => [title || 'As a bar', kindOf]), limits, { class: 'bars' }),
    jobsTable(...findHeldJobs(held, bank)));
}

// Returns the listed held jobs of a bank and of the banks below it, and the number of their held jobs that are not listed.
function findHeldJobs(held, bank) {
  if (bank === ROOT) return [held.jobs, held.more];
  const jobs = held.jobs.filter((job) => isInFocus(job.bank));
  const all = held.by_bank.filter(([name]) => isInFocus(name)).reduce((sum, [, , count]) => sum + count, 0);
  return [jobs, Math.max(0, all - jobs.length)];
}

function isInFocus(name) {
  const bank = banks.name.indexOf(name);
  return bank >= 0 && findBanksWithin(focus.bank)[bank] === 1;
}

const JOBS = 100;
function jobsTable(jobs, more) {
  const rows = jobs.slice(0, JOBS).map((job) => [shown(job.id), shown(job.user), job.bank === null ? '–' : shown(job.bank),
    job.queue === null ? '–' : shown(job.queue), grouped.format(job.nodes), grouped.format(job.cores),
    job.submitted === null ? '–' : moment(job.submitted), job.holds.map(shown).join(', ')]);
  const left = jobs.length - rows.length + more;
  return element('details', null, element('summary', null, 'The jobs'),
    table(left > 0 ? `The first of them; ${grouped.format(left)} more are held` : 'The held jobs',
      [['Job'], ['User', 'name'], ['Bank', 'name'], ['Queue', 'name'], ['Nodes', 'number'], ['Cores', 'number'], ['Submitted'], ['Held by']], rows));
}

function startHeld() {
  focus.followers.push(drawHeld);
}
