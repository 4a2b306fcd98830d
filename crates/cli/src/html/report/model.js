// SPDX-License-Identifier: LGPL-3.0-only
// The tree of the site, from the data of the page. Nodes are numbered: banks first, then associations.

const { banks, users } = data;
const bankCount = banks.name.length;
const userCount = users.name.length;
const ROOT = 0;

// Associations are sorted by bank, so those of a bank are a range. Banks are in the order of the tree, parents before children.
const firstUser = new Int32Array(bankCount + 1);
const banksBelow = Array.from({ length: bankCount }, () => []);
const usersBelow = new Float64Array(bankCount);
const promised = new Float64Array(bankCount);
for (let user = 0; user < userCount; user++) firstUser[users.bank[user] + 1]++;
for (let bank = 0; bank < bankCount; bank++) {
  usersBelow[bank] = firstUser[bank + 1];
  firstUser[bank + 1] += firstUser[bank];
  const above = banks.parent[bank];
  promised[bank] = above === null ? 1 : promised[above] * banks.share[bank];
  if (above !== null) banksBelow[above].push(bank);
}
for (let bank = bankCount - 1; bank > 0; bank--) usersBelow[banks.parent[bank]] += usersBelow[bank];
const inactiveBanks = new Set(banks.inactive);

const isBank = (node) => node < bankCount;
const column = (node, key) => (isBank(node) ? banks[key][node] : users[key][node - bankCount]);
const nameOf = (node) => column(node, 'name');
const parentOf = (node) => (isBank(node) ? banks.parent[node] : users.bank[node - bankCount]);
const promisedOf = (node) => (isBank(node) ? promised[node] : promised[parentOf(node)] * column(node, 'share'));
const deliveredOf = (node) => (banks.usage[ROOT] > 0 ? column(node, 'usage') / banks.usage[ROOT] : 0);

// Returns used / share of a node among its siblings; infinite if it used something without a share.
function ratioOf(node) {
  const [share, part] = [column(node, 'share'), column(node, 'part')];
  if (node === ROOT) return 1;
  if (part === 0) return share === 0 ? 1 : 0;
  return share === 0 ? Infinity : part / share;
}

// Returns the nodes from the root down to a node.
function pathOf(node) {
  const path = [];
  for (let at = node; at !== null; at = parentOf(at)) path.push(at);
  return path.reverse();
}

const belowCache = new Map();
// Returns the nodes directly below a bank: banks by descending share, then associations by descending used / share.
function listChildren(bank) {
  if (!belowCache.has(bank)) {
    const inner = banksBelow[bank].slice().sort((a, b) => banks.share[b] - banks.share[a] || a - b);
    const leaves = [];
    for (let user = firstUser[bank]; user < firstUser[bank + 1]; user++) leaves.push(bankCount + user);
    const ratio = new Map(leaves.map((leaf) => [leaf, Math.min(ratioOf(leaf), Number.MAX_VALUE)]));
    leaves.sort((a, b) => ratio.get(b) - ratio.get(a) || a - b);
    belowCache.set(bank, inner.concat(leaves));
  }
  return belowCache.get(bank);
}

const withinCache = new Map();
// Returns for each bank whether it is the given bank or below it.
function findBanksWithin(bank) {
  if (!withinCache.has(bank)) {
    const inside = new Uint8Array(bankCount);
    inside[bank] = 1;
    for (let other = bank + 1; other < bankCount; other++) {
      if (inside[banks.parent[other]]) inside[other] = 1;
    }
    withinCache.clear();
    withinCache.set(bank, inside);
  }
  return withinCache.get(bank);
}

let byName = null;
// Returns all associations of a user.
function associationsOf(name) {
  if (!byName) {
    byName = new Map();
    for (let user = 0; user < userCount; user++) {
      const list = byName.get(users.name[user]);
      if (list) list.push(user);
      else byName.set(users.name[user], [user]);
    }
  }
  return byName.get(name) || [];
}

// Formats a time as a date, with the time of day if the half-life of usage is under a week.
function decayDate(seconds) {
  const { half_life: halfLife, period, factor } = data.forgetting || {};
  const halves = halfLife ?? (period ? period / Math.min(50, -Math.log2(factor)) : Infinity);
  return halves < 7 * DAY ? moment(seconds) : day(seconds);
}

// Returns the usage that is left of [period, usage] pairs after `ahead` future boundaries, and those that passed uncounted. Usage older
// than `periods` periods is dropped.
function usageLeft(bins, ahead, periods) {
  const { factor, due } = data.forgetting;
  const crossed = due + ahead;
  let sum = 0;
  for (const [period, usage] of bins) if (period + crossed < periods) sum += usage * factor ** crossed;
  return sum;
}

// Returns the recorded usage of an association as [period, usage] pairs.
function binsOf(user) {
  const bins = [];
  if (data.usage) data.usage.users.forEach((row, period) => row[user] && bins.push([period, row[user]]));
  return bins;
}

// The selected bank, and the functions that are called when it changes.
const focus = { bank: ROOT, followers: [] };
function selectBank(bank) {
  focus.bank = bank;
  focus.followers.forEach((follow) => follow(bank));
}
