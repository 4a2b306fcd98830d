// SPDX-License-Identifier: LGPL-3.0-only
// The theme, printing, and changes of the width.

// Uses the system's theme until the user chooses one. Calls `redraw` after a change.
function startTheme(redraw) {
  const button = document.getElementById('theme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  try { chosen = localStorage.getItem('flux-fairshare-theme'); } catch { /* a page from a file may have no storage */ }
  const apply = () => {
    const dark = chosen ? chosen === 'dark' : system.matches;
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    button.textContent = dark ? 'Light' : 'Dark';
    button.setAttribute('aria-label', dark ? 'Light colours' : 'Dark colours');
  };
  const again = () => {
    apply();
    redraw();
  };
  button.addEventListener('click', () => {
    chosen = isDark() ? 'light' : 'dark';
    try { localStorage.setItem('flux-fairshare-theme', chosen); } catch { /* then the choice lasts as long as the page */ }
    again();
  });
  system.addEventListener('change', again);
  apply();
}

// The greatest number of rows that are printed of a table.
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

// Redraws after a change of the width, at most once per frame.
function startWidth(redraw) {
  let resized = 0;
  addEventListener('resize', () => {
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(redraw);
  });
}

const ready = () => { document.documentElement.dataset.ready = String(Math.round(performance.now())); };
