/* Line icons on a grid of 20. They are decoration: every control has words of its own. */
const paths = {
  plus: 'M10 4v12M4 10h12',
  send: 'M10 16V4M5 9l5-5 5 5',
  stop: 'M6 6h8v8H6z',
  menu: 'M3 5.5h14M3 10h14M3 14.5h14',
  close: 'M5 5l10 10M15 5L5 15',
  search: 'M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM13 13l4 4',
  more: 'M4.5 10h.01M10 10h.01M15.5 10h.01',
  copy: 'M7 7V4.5h8.5V13H13M4.5 7H13v8.5H4.5z',
  check: 'M4 10.5l4 4 8-9',
  down: 'M10 3.5v9M6 9l4 4 4-4M4 16.5h12',
  file: 'M5.5 2.5H12l3.5 3.5v11.5h-10zM12 2.5V6h3.5',
  table: 'M3 4h14v12H3zM3 8h14M8 8v8',
  chart: 'M3.5 16.5h13M5.5 13.5v-4M10 13.5v-9M14.5 13.5v-6',
  code: 'M7 6l-4 4 4 4M13 6l4 4-4 4',
  data: 'M10 3c3.6 0 6 1 6 2.3S13.600 7.600 10 7.600 4 6.600 4 5.300 6.400 3 10 3zM4 5.300v9.400C4 16 6.400 17 10 17s6-1 6-2.300V5.300M4 10c0 1.300 2.400 2.300 6 2.300s6-1 6-2.300',
  pin: 'M7 3h6l-.7 5 2.700 3H5l2.700-3zM10 11v6',
  pencil: 'M4 16l.8-3.600L13 4.200l2.800 2.800-8.200 8.200z',
  trash: 'M4 5.500h12M8 5.500V3.500h4v2M5.500 5.500l.8 11h7.400l.8-11',
  up: 'M10 15.500V5M5.500 9.500L10 5l4.500 4.500',
  chevron: 'M7 5l5 5-5 5',
  pulse: 'M2.500 10.500h3.500L8 5l3.500 10 2-4.500h4',
  help: 'M7.500 7.500a2.500 2.500 0 1 1 3.500 2.300c-.7.3-1 .8-1 1.700M10 14.500h.01M10 2.500a7.500 7.500 0 1 0 0 15 7.500 7.500 0 0 0 0-15z',
  play: 'M6.500 4.500l8.500 5.500-8.500 5.500z',
  steps: 'M3 5h7M6.500 10h7M10 15h7',
  flag: 'M5 17.500V3.500h9.500l-2 3.500 2 3.500H5',
  branch: 'M6 4.500v7M6 11.500c0-3 8-1.500 8-5.500M6 3a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3zM14 3a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3zM6 11.500a2 2 0 1 0 0 4 2 2 0 0 0 0-4z',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return <svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d={paths[name]} /></svg>;
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <circle cx="16" cy="16" r="16" />
      <g>{[[10, 11], [16, 11], [22, 11], [13, 17], [19, 17], [16, 23]].map(([x, y]) => <circle cx={x} cy={y} r="2" />)}</g>
    </svg>
  );
}
