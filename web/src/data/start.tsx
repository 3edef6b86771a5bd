import { panelOpen, ReportView } from './panel';
import { chooseFiles, lastRead } from './upload';
import { chosen, contents, sets } from './sets';
import { Button } from '../shared/button';
import { Icon } from '../shared/icon';

/* The first view: what there is to ask about. */
export function Start() {
  return (
    <section id="start" aria-labelledby="start-title">
      <h2 id="start-title">What would you like to know?</h2>
      <p class="lead">Choose some data, or bring your own, and ask.</p>
      {lastRead.value.filter(read => chosen.value.includes(read.id)).map(read => (
        <section class="read" aria-label={`How ${read.name} was read`}>
          <b dir="auto">{read.name}</b>
          <ReportView report={read.report} data={read.id} table={read.table ?? undefined} />
          <Button class="small" icon="data" onClick={() => { panelOpen.value = true; }}>See the data</Button>
        </section>
      ))}
      <div id="sets" role="group" aria-label="Data to ask about">
        <button type="button" class="add" onClick={chooseFiles}>
          <b><Icon name="plus" />Add a file</b><span>CSV, JSON, Parquet, Excel, SQLite, DuckDB. Choose one, drop it anywhere here, or paste a table.</span>
        </button>
        {sets.value === null && [1, 2, 3, 4].map(n => <div class="waiting" key={n} aria-hidden="true" />)}
        {sets.value?.map(s => (
          <button type="button" data-id={s.id} aria-pressed={chosen.value.includes(s.id)} onClick={() => { chosen.value = [s.id]; }}>
            <b dir="auto">{s.name}</b><span dir="auto">{s.description || ''}</span>{contents.value[s.id] && <small>{contents.value[s.id]}</small>}
          </button>
        ))}
      </div>
    </section>
  );
}
