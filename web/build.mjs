/*
 * Bundles the page: `node web/build.mjs OUT`. OUT gets index.html and the files that it names, each compressed by gzip as NAME.gz. All but
 * the index have a hash of their content in their names, so that browsers may keep them for ever. The packages are those of
 * third_party/page (scripts/fetch-third-party).
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const web = dirname(fileURLToPath(import.meta.url)), out = resolve(process.argv[2]);
const packages = resolve(web, '../third_party/page/node_modules');
const { build } = createRequire(join(packages, 'esbuild/package.json'))('esbuild');

const made = await build({
  absWorkingDir: web,
  entryPoints: { app: 'src/main.tsx' },
  outdir: out,
  bundle: true,
  splitting: true,
  format: 'esm',
  minify: true,
  write: false,
  target: ['chrome111', 'firefox115', 'safari16.4'],
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  nodePaths: [packages],
  tsconfigRaw: {},
  logLevel: 'warning',
  metafile: true,
});

const put = (name, data) => writeFileSync(join(out, `${name}.gz`), gzipSync(data, { level: 9 }));
const named = kind => basename(made.outputFiles.find(f => basename(f.path).startsWith('app-') && f.path.endsWith(kind)).path);
for (const file of made.outputFiles) put(basename(file.path), file.contents);
/* What the script imports is asked for together with it, not after it. */
const app = Object.entries(made.metafile.outputs).find(([path]) => basename(path) === named('.js'))[1];
const ahead = app.imports.filter(i => i.kind === 'import-statement').map(i => `<link rel="modulepreload" href="/ui/${basename(i.path)}">\n`).join('');
put('index.html', readFileSync(join(web, 'index.html'), 'utf8').replace('app.css', named('.css')).replace(/(?=<script)/, ahead).replace('app.js', named('.js')));
