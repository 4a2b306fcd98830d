// SPDX-License-Identifier: LGPL-3.0-only
// Draws the tree as an icicle chart: a row per level, with boxes as wide as the shares. Boxes that are too narrow are joined.

const icicle = { box: document.getElementById('icicle'), cells: new Map(), current: null };
const ROW = 53;
const LEVELS = 6;
const THIN = 52; // narrower ones have no text
const NARROW = 110; // narrower ones have no figures
const LEAST = 4; // pixels; narrower ones are joined

const describe = (node) => `${nodeLabel(node)}: ${describeNode(node)}`;
function describeNode(node) {
  const used = column(node, 'usage');
  if (node === ROOT) return `${amount(used)} used by ${count(usersBelow[ROOT], 'association')} in all`;
  const above = nodeLabel(parentOf(node));
  const shares = column(node, 'shares');
  const has = shares === null ? 'its parent’s shares' : count(shares, 'share');
  const ratio = ratioOf(node);
  const verdict = ratio === Infinity ? 'without a share'
    : ratio === 0 ? 'none of its share' : `${times(ratio)} its share`;
  const place = isBank(node) ? count(usersBelow[node], 'association') : standing(node - bankCount);
  return `${has}, ${percent(column(node, 'share'))} of ${above}, used ${percent(column(node, 'part'))} ` +
    `of its usage, ${verdict}; of the site: share ${percent(promisedOf(node))}, used ${percent(deliveredOf(node))} ` +
    `(${amount(used)}); ${place}`;
}

function standing(user) {
  const place = users.places[0][user];
  return place ? `${ordinal(place)} of ${grouped.format(data.ranked)}` : 'inactive, without a place';
}

// Returns the boxes, level by level. Their left edge and width are parts of the whole width.
function layOutBoxes(root, width) {
  const cells = [{ node: root, left: 0, width: 1, level: 0, parent: null }];
  for (let at = 0; at < cells.length; at++) {
    const cell = cells[at];
    if (cell.nodes || !isBank(cell.node) || cell.level + 1 >= LEVELS || cell.width * width < 2 * LEAST) continue;
    const children = listChildren(cell.node);
    let sum = 0;
    for (const child of children) sum += column(child, 'share');
    const scale = cell.width / Math.max(sum, 1);
    let { left } = cell;
    let joined = null;
    const close = () => {
      if (joined) cells.push(joined);
      joined = null;
    };
    for (const child of children) {
      const wide = column(child, 'share') * scale;
      if (wide * width >= LEAST) {
        close();
        cells.push({ node: child, left, width: wide, level: cell.level + 1, parent: cell.node });
      } else if (wide > 0) {
        joined = joined || { nodes: [], left, width: 0, level: cell.level + 1, parent: cell.node, share: 0, part: 0 };
        joined.nodes.push(child);
        joined.width += wide;
        joined.share += column(child, 'share');
        joined.part += column(child, 'part');
        if (joined.width * width >= LEAST) close();
      }
      left += wide;
    }
    // Joined boxes under half a pixel are left out.
    if (joined && joined.width * width >= 0.5) close();
  }
  return cells;
}

const keyOf = (cell) => (cell.nodes ? `${cell.nodes[0]}+${cell.nodes.length}` : String(cell.node));

function paintCell(made, cell, width) {
  const ratio = cell.nodes ? (cell.share > 0 ? cell.part / cell.share : 1) : ratioOf(cell.node);
  const colour = colourOf(ratio);
  const { style } = made;
  style.left = `${cell.left * 100}%`;
  style.width = `${cell.width * 100}%`;
  style.top = `${cell.level * ROW}px`;
  style.backgroundColor = css(colour);
  style.color = inkOn(colour);
  made.classList.toggle('thin', cell.width * width < THIN);
  made.classList.toggle('narrow', cell.width * width < NARROW);
}

function makeCell(cell) {
  if (cell.nodes) {
    const names = cell.nodes.slice(0, 5).map((node) => shown(nameOf(node))).join(', ');
    const more = cell.nodes.length > 5 ? ', …' : '';
    return element('div', { class: 'joined', 'aria-hidden': 'true', title: `${cell.nodes.length} small ones: ${names}${more}` });
  }
  const { node } = cell;
  const figures = node === ROOT ? amount(banks.usage[ROOT]) : `${percent(column(node, 'share'))} · ${times(ratioOf(node))}`;
  return element('button', {
    type: 'button', tabindex: '-1', 'data-node': node,
    // The label begins with the visible text, which users of speech input say.
    'aria-label': `${shown(nameOf(node))} ${figures}, ${isBank(node) ? 'bank' : 'user'}: ${describeNode(node)}`,
  }, element('b', null, shown(nameOf(node))), ' ', element('span', null, figures));
}

function drawIcicle() {
  const width = icicle.box.clientWidth || 1100;
  const cells = layOutBoxes(focus.bank, width);
  const drawnCells = new Map();
  const list = [];
  let levels = 1;
  for (const cell of cells) {
    const key = keyOf(cell);
    const made = icicle.cells.get(key) || makeCell(cell);
    drawnCells.set(key, made);
    paintCell(made, cell, width);
    levels = Math.max(levels, cell.level + 1);
    if (!cell.nodes) list.push({ ...cell, made });
  }
  icicle.cells = drawnCells;
  icicle.list = list;
  const held = icicle.box.contains(document.activeElement);
  icicle.box.replaceChildren(...drawnCells.values());
  icicle.box.style.height = `${levels * ROW}px`;
  const at = list.find(({ node }) => node === icicle.current) || list[0];
  makeFocusable(at.node, held);
}

// Makes a node the one that the Tab key reaches, and focuses it if `take` is set.
function makeFocusable(node, take) {
  icicle.current = node;
  for (const cell of icicle.list) cell.made.tabIndex = cell.node === node ? 0 : -1;
  const cell = icicle.list.find((other) => other.node === node);
  if (take && cell) cell.made.focus({ preventScroll: true });
}

function openNode(node) {
  if (!isBank(node)) location.hash = `user=${encodeURIComponent(nameOf(node))}`;
  else if (node === focus.bank) zoomOut();
  else zoom(node);
}
function zoom(bank) {
  icicle.current = bank;
  location.hash = `bank=${encodeURIComponent(banks.name[bank])}`;
}
function zoomOut() {
  const above = banks.parent[focus.bank];
  if (above !== null) zoom(above);
}

function step(key) {
  const { list, current } = icicle;
  const cell = list.find(({ node }) => node === current);
  const sameLevel = list.filter(({ level }) => level === cell.level);
  const at = sameLevel.indexOf(cell);
  const to = {
    ArrowLeft: () => sameLevel[at - 1],
    ArrowRight: () => sameLevel[at + 1],
    Home: () => sameLevel[0],
    End: () => sameLevel[sameLevel.length - 1],
    ArrowUp: () => list.find(({ node }) => node === cell.parent),
    ArrowDown: () => list.find(({ parent }) => parent === current),
  }[key]();
  if (to) makeFocusable(to.node, true);
}

function startTree() {
  const nodeAt = (event) => {
    const made = event.target.closest('[data-node]');
    return made ? Number(made.dataset.node) : null;
  };
  const showDescription = (event) => {
    const node = nodeAt(event);
    if (node !== null) put('description', describe(node));
  };
  icicle.box.addEventListener('click', (event) => nodeAt(event) !== null && openNode(nodeAt(event)));
  icicle.box.addEventListener('pointerover', showDescription);
  icicle.box.addEventListener('focusin', (event) => {
    const node = nodeAt(event);
    if (node !== null && node !== icicle.current) makeFocusable(node, false);
    showDescription(event);
  });
  icicle.box.addEventListener('keydown', (event) => {
    if (['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End'].includes(event.key)) step(event.key);
    else if (event.key === 'Escape' || event.key === 'Backspace') zoomOut();
    else return;
    event.preventDefault();
  });
  focus.followers.push((bank) => {
    drawIcicle();
    drawCrumbs(bank);
    drawBelow(bank);
    put('description', describe(bank));
  });
}

function drawLegend() {
  const ramp = element('div', { class: 'ramp', 'aria-hidden': 'true' });
  const stops = [0.25, 0.5, 1, 2, 4].map((ratio) => css(colourOf(ratio)));
  ramp.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
  const marks = ['¼ ×', '½ ×', 'even', '2 ×', '4 ×'].map((mark) => element('span', null, mark));
  put('legend', element('div', null, 'Used / share among siblings'), ramp, element('div', { class: 'marks' }, marks));
}

function drawCrumbs(bank) {
  const path = pathOf(bank);
  const seen = path.length > 9 ? [...path.slice(0, 3), null, ...path.slice(-5)] : path;
  const items = seen.map((node) => element('li', null, node === null ? '…' : node === bank
    ? element('span', { 'aria-current': 'true' }, shown(nameOf(node)))
    : element('button', { type: 'button', class: 'plain', click: () => zoom(node) }, shown(nameOf(node)))));
  put('crumbs', element('ol', null, items));
}

const LISTED = 12;
// Lists the banks and users directly below a bank: the first of them, or all.
function drawBelow(bank, all = false) {
  const children = listChildren(bank);
  if (children.length === 0) {
    put('below', element('p', { class: 'empty' }, 'The bank is empty.'));
    return;
  }
  // The longest bar fills its cell, so that the bars of many small banks can be compared.
  const most = children.reduce((most, node) => Math.max(most, column(node, 'part'), column(node, 'share')), 1e-9);
  const rows = children.slice(0, all ? Infinity : LISTED).map((node) => {
    const ratio = ratioOf(node);
    const shares = column(node, 'shares');
    const link = isBank(node)
      ? element('button', { type: 'button', class: 'plain', click: () => zoom(node) }, shown(nameOf(node)))
      : userLink(node - bankCount);
    return [link, percent(column(node, 'share')), percent(column(node, 'part')), element('span', { class: side(ratio) }, times(ratio)),
      meter(column(node, 'part'), column(node, 'share'), ratio, most), figure(column(node, 'usage')),
      shares === null ? 'parent' : grouped.format(shares), isBank(node) ? 'bank' : 'user'];
  });
  // A narrow screen shows the first four columns without scrolling.
  const columns = [['Name', 'name'], ['Share', 'number'], ['Used', 'number'], ['Used / share', 'number'], ['Used, with the share'],
    [inHours ? 'Node-hours (decayed)' : 'Usage (decayed)', 'number'], ['Shares', 'number'], ['Kind']];
  const more = children.length - rows.length;
  const order = isBank(children[0]) ? 'share' : 'used / share';
  const caption = `Directly below ${shown(nameOf(bank))}${more > 0 ? `, by ${order}: the first ${LISTED} of ${grouped.format(children.length)}` : ''}`;
  const showAll = () => {
    drawBelow(bank, true);
    document.querySelector('#below .scroll').focus();
  };
  const button = element('button', { type: 'button', id: 'show-all', click: showAll }, `Show all ${grouped.format(children.length)}`);
  put('below', table(caption, columns, rows), ...(more > 0 ? [button] : []));
}
