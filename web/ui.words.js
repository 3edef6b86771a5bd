/*
 * Describing data: a dialog for what people know about a data set and no column name says. It shows what is known, sends what was changed
 * (PATCH /datasets/{id}), and stays open with the reason when the server refuses.
 */
'use strict';

const field = (label, node) => el('label', {}, el('span', {}, label), node);
const lines = text => text.split('\n').map(line => line.trim()).filter(Boolean);

function metricRow(name, meaning) {
  const row = el('div', { class: 'metric' },
    el('input', { value: name, maxlength: 80, placeholder: 'revenue', 'aria-label': 'Name of the metric' }),
    el('input', { value: meaning, maxlength: 2000, placeholder: 'sum of amount where status is completed', 'aria-label': 'What it means' }),
    button('Remove', () => row.remove(), 'quiet'));
  return row;
}

function columnRow(name, about) {
  return el('div', { class: 'column', 'data-column': name }, el('b', {}, name, el('small', {}, ` ${about.sql_type || about.type || ''}`)),
    el('input', { value: about.description || '', maxlength: 2000, placeholder: 'What it is', 'aria-label': `Description of ${name}` }),
    el('input', { value: about.unit || '', maxlength: 40, placeholder: 'Unit', 'aria-label': `Unit of ${name}` }));
}

/* Only what is different now: null where it was emptied. */
function changed(before, now) {
  const patch = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(now)]))
    if ((before[key] || '') !== (now[key] || '')) patch[key] = now[key] || null;
  return Object.keys(patch).length ? patch : undefined;
}

function readWords(schema, form) {
  const patch = changed({ description: schema.description }, { description: form.querySelector('.description').value.trim() }) || {};
  const notes = lines(form.querySelector('.notes').value);
  if (notes.join('\n') !== (schema.words.notes || []).join('\n')) patch.notes = notes.length ? notes : null;
  const metrics = {};
  for (const row of form.querySelectorAll('.metric')) {
    const [name, meaning] = [...row.querySelectorAll('input')].map(input => input.value.trim());
    if (name) metrics[name] = meaning;
  }
  patch.metrics = changed(schema.metrics, metrics);
  const tables = {};
  schema.files.forEach((file, i) => {
    const part = form.querySelectorAll('.table')[i], columns = {};
    const table = changed({ description: file.description }, { description: part.querySelector('.about').value.trim() }) || {};
    for (const row of part.querySelectorAll('.column')) {
      const about = file.schema[row.dataset.column], [description, unit] = [...row.querySelectorAll('input')].map(input => input.value.trim());
      const difference = changed({ description: about.description, unit: about.unit }, { description, unit });
      if (difference) columns[row.dataset.column] = difference;
    }
    if (Object.keys(columns).length) table.columns = columns;
    if (Object.keys(table).length) tables[file.table] = table;
  });
  if (Object.keys(tables).length) patch.tables = tables;
  return JSON.parse(JSON.stringify(patch));
}

async function describeData(id) {
  const path = `/datasets/${encodeURIComponent(id)}`, schema = await get(`${path}/schema`);
  const metrics = el('div', { class: 'metrics' }, Object.entries(schema.metrics).map(([name, meaning]) => metricRow(name, meaning)));
  const problems = el('p', { class: 'problem', role: 'alert', hidden: true });
  const form = el('form', { method: 'dialog' },
    el('h2', { id: 'words-title' }, `About ${schema.name}`),
    el('p', { class: 'lead' }, 'What you write here helps to read your questions. Only you see it.'),
    field('What the data is', el('textarea', { class: 'description', rows: 2, maxlength: 4000 }, schema.description || '')),
    field('Notes, one a line', el('textarea', { class: 'notes', rows: 2, placeholder: 'Test orders have customer 0.' },
      (schema.words.notes || []).join('\n'))),
    el('fieldset', {}, el('legend', {}, 'Metrics'), metrics, button('Add a metric', () => metrics.append(metricRow('', '')), 'quiet')),
    schema.files.map(file => el('details', { class: 'table', open: schema.files.length === 1 }, el('summary', {}, file.table),
      field('What a row is', el('input', { class: 'about', value: file.description || '', maxlength: 2000 })),
      Object.entries(file.schema).map(([name, about]) => columnRow(name, about)))),
    problems,
    el('div', { class: 'actions' }, button('Cancel', () => dialog.close()), el('button', { type: 'submit', class: 'main' }, 'Save')));
  const dialog = el('dialog', { id: 'words', 'aria-labelledby': 'words-title' }, form);
  form.addEventListener('submit', async event => {
    event.preventDefault();
    try {
      const patch = readWords(schema, form);
      if (Object.keys(patch).length)
        await call(path, { method: 'PATCH', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(patch) });
      dialog.close();
      if (!state.thread) { await loadSets(); await showStart(); }
    } catch (error) {
      problems.textContent = error.message;
      problems.hidden = false;
    }
  });
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

$('describe').addEventListener('click', () => guarded(() => describeData(state.thread?.data || state.chosen[0])));
