/* What the server answers, as far as the page reads it. Bodies that the OpenAPI description has schemas for are generated. */
import type { Value } from '../shared/text';

export interface DataSet { id: string; name: string; description?: string; prompts?: string[]; version_hash?: string }

export interface Column {
  type?: string; sql_type?: string; description?: string; unit?: string; role?: string; nullable?: boolean; nulls?: number; distinct?: number;
  min?: Value; max?: Value; mean?: number; top?: { value: Value; count: number }[]; histogram?: { edges?: number[]; counts: number[] };
}
export interface Report {
  rows?: number; refused?: number; skipped?: number; refused_rows?: { line: number; reason: string; text: string }[]; encoding?: string;
  delimiter?: string; quote?: string; header_line?: number; decimal?: string; thousands?: string; sheet?: string; sheets?: number; notes?: string[];
  columns?: { name: string; note?: string; nulls?: Record<string, number>; date_order?: string; guessed?: boolean }[];
}
export interface Table {
  name: string; table: string; description?: string; row_count?: number; size_bytes?: number; schema: Record<string, Column>;
  sample_rows?: Record<string, Value>[]; report?: Report;
}
export interface Schema {
  id: string; name: string; description?: string; files: Table[]; relationships?: { from: string; to: string; type?: string }[];
  words: { notes?: string[]; [key: string]: unknown }; notes?: string[]; metrics: Record<string, string>; prompts?: string[];
}

export interface Result {
  columns: string[]; types?: string[]; rows: Value[][]; row_count?: number; total_rows?: number; truncated?: boolean; stdout?: string;
  outputs?: Output[]; error?: { message?: string } | null; exec_time_ms?: number;
}
export interface Output { text?: string; png?: string; svg?: string; png_url?: string; svg_url?: string; image?: number }
export interface CodeRun { language: string; code: string; output?: string; exec_ms?: number; status?: string; plan?: unknown }
export interface Chart { mark: any; encoding: Record<string, any>; title?: string; [key: string]: any }
export interface Choice { reading: string; plan?: unknown }
export interface Flag { text: string; offset: number }

export interface Answer {
  response?: string; status?: string; run_id?: string; result?: Result | null; code_runs?: CodeRun[]; chart?: Chart | null; images?: Output[];
  files?: { path: string; size?: number }[]; reading?: string; warning?: string; not_understood?: string[]; choices?: Choice[];
  suggestions?: string[]; flagged?: Flag[]; verified?: unknown; model?: string; total_ms?: number; timings_ms?: Record<string, any>;
  usage?: { input_tokens?: number; output_tokens?: number; cost_usd?: number } | null; state_lost?: unknown; container_state?: string;
}

export interface Message {
  id: number; role: string; content: string; created_at?: string; dataset_id?: string; run_id?: string;
  metadata?: (Answer & { status?: string; code?: string; plan?: unknown; query_mode?: string }) | null;
}
export interface ThreadInfo { message_count: number; sandbox_status: string; cached?: boolean; title?: string | null; updated_at?: string; pinned?: boolean }
