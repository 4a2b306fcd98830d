// SPDX-License-Identifier: LGPL-3.0-only
// The budgets of the database.

function startBudgets() {
  if (!data.budgets) return;
  const hours = (milliseconds) => (milliseconds / 3.6e6).toLocaleString('en-US', { maximumFractionDigits: 2 });
  const rows = data.budgets.map((budget) => [`${budget.scope} ${shown(budget.name)}`, budget.unit, moment(budget.start), moment(budget.end),
    hours(budget.deposited), hours(budget.spent), hours(budget.deposited - budget.spent),
    budget.lasts_until === null ? '–' : budget.lasts_until >= budget.end ? 'end of window' : moment(budget.lasts_until)]);
  put('budget-table', table('Spent by ended jobs; a budget lasts at the rate of ended jobs in the last 7 days',
    [['Budget', 'name'], ['Unit'], ['From'], ['Until'], ['Deposited', 'number'], ['Spent', 'number'], ['Left', 'number'], ['Lasts until']], rows));
  document.getElementById('budgets').hidden = false;
}
