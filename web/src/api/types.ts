/* What the server answers: generated from the OpenAPI description. */
import type * as api from 'riddle-openapi';

export type {
  Chart, Check, Checkpoint, Choice, CodeRun, Column, DataSet, Executed, Flag, ListedThread, Message, Messages, Output, PauseEvent, ReadingEvent, ReadOptions, Report, Result,
  RowsPage, SandboxEvent, Schema, SchemaTable, Setting, StepEvent, Table, Threads, TurnEvent, Upload, UploadedFile, UploadResponse, Variable,
} from 'riddle-openapi';

/* While it comes, and in the history of a thread, only some of an answer is there. */
export type Answer = Partial<Omit<api.Answer, 'code_runs' | 'images' | 'result'>> & {
  code_runs?: (Pick<api.CodeRun, 'language' | 'code'> & Partial<api.CodeRun>)[]; images?: api.Output[]; result?: api.Result | null };
