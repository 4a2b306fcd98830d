// SPDX-License-Identifier: LGPL-3.0-only
// How a page behaves: in light and dark, on paper, and in another width.

// Light or dark as the system has it, until somebody chooses; then `anew` draws.
function startTheme(anew) {
  const button = document.getElementById('theme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  try { chosen = localStorage.getItem('flux-fairshare-theme'); } catch { /* a file may have no storage */ }
  const apply = () => {
    const dark = chosen ? chosen === 'dark' : system.matches;
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    button.textContent = dark ? 'Light' : 'Dark';
    button.setAttribute('aria-label', dark ? 'Light colours' : 'Dark colours');
  };
  const again = () => {
    apply();
    anew();
  };
  button.addEventListener('click', () => {
    chosen = isDark() ? 'light' : 'dark';
    try { localStorage.setItem('flux-fairshare-theme', chosen); } catch { /* it lasts as long as the page */ }
    again();
  });
  system.addEventListener('change', again);
  apply();
}

// Of long tables so many rows are printed.
const PRINTED = 50;
function startPrint(redraw) {
  let before = null;
  document.getElementById('print').addEventListener('click', () => print());
  addEventListener('beforeprint', () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = 'light';
    redraw();
    Grid.all.forEach((grid) => grid.render(true, PRINTED));
  });
  addEventListener('afterprint', () => {
    document.documentElement.dataset.theme = before;
    redraw();
  });
}

// Draws anew what was drawn for another width, once for each frame.
function startWidth(redraw) {
  let resized = 0;
  addEventListener('resize', () => {
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(redraw);
  });
}

const ready = () => { document.documentElement.dataset.ready = String(Math.round(performance.now())); };
