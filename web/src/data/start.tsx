import { useSignal } from '@preact/signals';
import { panelOpen } from './panel';
import { Reading } from './reading';
import { ReportView } from './report';
import { chooseFiles, lastRead, readAgain } from './upload';
import { chosen, contents, sets } from './sets';
import { Button } from '../shared/button';
import { Icon } from '../shared/icon';
import { count, DATES } from '../shared/text';
import { mode } from '../threads/composer-state';

const MOST = 5; /* cards of uploads; the others come by a click */

/* How the files that were just added were read, with a way to correct it. */
function JustRead() {
  return lastRead.value.filter(read => chosen.value.includes(read.id)).map(({ id, name, tables }) => (
    <section class="read" key={id} aria-label={`How ${name} was read`}>
      <b dir="auto">{name}</b>
      {tables.map(({ table, report }) => (
        <>
          {tables.length > 1 && <h3 dir="auto">{table}</h3>}
          <ReportView report={report} data={id} table={table} again={() => readAgain(id)} />
        </>
      ))}
      {tables.length ? (
        <>
          <Reading data={id} report={tables[0].report} done={() => readAgain(id)} />
          <Button class="small" icon="data" onClick={() => { panelOpen.value = true; }}>See the data</Button>
        </>
      ) : (
        <>
          <p class="note">No table was found in it, so questions and SQL cannot use it. Python can: it is at <code>/data/{name}</code>.</p>
          <Button class="small" icon="code" onClick={() => { mode.value = 'python'; document.getElementById('question')?.focus(); }}>Write Python</Button>
        </>
      )}
    </section>
  ));
}

/* The first view: what there is to ask about. */
export function Start() {
  const all = useSignal(false), cards = sets.value ?? [], shown = all.value ? cards : cards.filter((s, i) => i < MOST || s.kind !== 'upload' || chosen.value.includes(s.id));
  return (
    <section id="start" aria-labelledby="start-title">
      <h2 id="start-title">What would you like to know?</h2>
      <p class="lead">Choose some data, or bring your own, and ask.</p>
      <JustRead />
      <div id="sets" role="group" aria-label="Data to ask about">
        <button type="button" class="add" onClick={chooseFiles}>
          <b><Icon name="plus" />Add a file</b><span>CSV, JSON, Parquet, Excel, SQLite, DuckDB. Choose one, drop it anywhere here, or paste a table.</span>
        </button>
        {sets.value === null && [1, 2, 3, 4].map(n => <div class="waiting" key={n} aria-hidden="true" />)}
        {shown.map(s => (
          <button type="button" data-id={s.id} key={s.id} aria-pressed={chosen.value.includes(s.id)} onClick={() => { chosen.value = [s.id]; }}>
            <b title={s.name}><bdi>{s.name}</bdi></b><span><bdi>{(s.description || '').split(DATES).map((part, i) => (i % 2 ? <span class="unbroken">{part}</span> : part))}</bdi></span>{contents.value[s.id] && <small>{contents.value[s.id]}</small>}
          </button>
        ))}
      </div>
      {shown.length < cards.length && <p class="earlier"><Button class="quiet" onClick={() => { all.value = true; }}>Show {count(cards.length - shown.length, 'older file')}</Button></p>}
    </section>
  );
}
