// SPDX-License-Identifier: LGPL-3.0-only
// The site as the page knows it: the data, and what follows from them. Nodes have numbers, banks first, then associations.

const { banks, users } = data;
const bankCount = banks.name.length;
const userCount = users.name.length;
const ROOT = 0;

// Associations come bank by bank: those of one are a range. So are the banks below one, in the order of the tree.
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

// How many times its share a node used, among its siblings; infinite without a share.
function ratioOf(node) {
  const [share, part] = [column(node, 'share'), column(node, 'part')];
  if (node === ROOT) return 1;
  if (part === 0) return share === 0 ? 1 : 0;
  return share === 0 ? Infinity : part / share;
}

// From the root down to a node.
function pathOf(node) {
  const path = [];
  for (let at = node; at !== null; at = parentOf(at)) path.push(at);
  return path.reverse();
}

const belowCache = new Map();
// What is right below a bank: banks by share, then associations, those who used most of their share first.
function below(bank) {
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
// For each bank, whether it is the given one or below it.
function within(bank) {
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
// All associations of a user, by name.
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

// The date of an instant, with its time where the half-life of usage is under a week.
function decayDate(seconds) {
  const { half_life: halfLife, period, factor } = data.forgetting || {};
  const halves = halfLife ?? (period ? period / Math.min(50, -Math.log2(factor)) : Infinity);
  return halves < 7 * DAY ? moment(seconds) : day(seconds);
}

// What is left of [period, usage] pairs after so many boundaries to come, and those that passed without being counted, where
// so many periods are kept.
function left(bins, ahead, periods) {
  const { factor, due } = data.forgetting;
  const crossed = due + ahead;
  let sum = 0;
  for (const [period, usage] of bins) if (period + crossed < periods) sum += usage * factor ** crossed;
  return sum;
}

// The recorded usage of an association, as [period, usage].
function binsOf(user) {
  const bins = [];
  if (data.usage) data.usage.users.forEach((row, period) => row[user] && bins.push([period, row[user]]));
  return bins;
}

// The bank that the whole page looks at, and who wants to know when it is another.
const focus = { bank: ROOT, followers: [] };
function look(bank) {
  focus.bank = bank;
  focus.followers.forEach((follow) => follow(bank));
}
