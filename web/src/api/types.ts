/* What the server answers: generated from the OpenAPI description. */
import type * as api from 'riddle-openapi';

export type {
  Chart, Check, Checkpoint, Choice, CodeRun, Column, DataSet, Event as StreamEvent, Executed, Flag, ListedThread, Message, Messages, Output, ReadOptions, Report, Result,
  RowsPage, Schema, SchemaTable, Setting, Table, Threads, Upload, UploadedFile, UploadResponse,
} from 'riddle-openapi';

/* While it comes, and in the history of a thread, only some of an answer is there. */
export type Answer = Partial<Omit<api.Answer, 'code_runs' | 'images' | 'result'>> & {
  code_runs?: (Pick<api.CodeRun, 'language' | 'code'> & Partial<api.CodeRun>)[]; images?: api.Output[]; result?: api.Result | null };
