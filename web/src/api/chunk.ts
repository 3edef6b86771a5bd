/*
 * Parts of the page that are loaded when they are first needed. When one does not come because the server is away, it is asked for again; when
 * the server has another version of the page by then, the page is loaded anew: the address says what it shows.
 */
import { untilReturned } from './call';

export const chunk = <T>(load: () => Promise<T>) => async (): Promise<T> => {
  try {
    return await load();
  } catch {
    await untilReturned();
  }
  try {
    return await load();
  } catch {
    location.reload();
    return new Promise(() => undefined);
  }
};
