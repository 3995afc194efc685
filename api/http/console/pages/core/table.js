// Tables, and lists that the broker filters, sorts and pages.

import { html, useEffect, useRef, useState } from "./view.js";
import { setParams, useRoute } from "./route.js";
import { useAnswer } from "./answers.js";
import { Answer } from "./parts.js";
import { number } from "./format.js";

// Table of `columns` {title, cell(row), isNumber, sort, isHeader}; on a phone each row is a block with labelled values.
// `detail(row)` returns what is shown below a row, over its whole width, or null.
export function Table({ caption, columns, rows, rowKey, detail = null, empty = "Nothing to show.", sorted = null, onSort = null, isBusy = false }) {
  if (rows.length === 0) return html`<p class="muted empty">${empty}</p>`;
  return html`<div class="table-frame" role="region" aria-label=${caption} tabindex="0">
    <table role="table" aria-busy=${isBusy ? "true" : "false"}>
      <caption class="hidden">${caption}</caption>
      <thead role="rowgroup"><tr role="row">${columns.map((column) => html`
        <th role="columnheader" scope="col" class=${column.isNumber ? "number" : null} aria-sort=${ariaSort(column, sorted)}>
          ${column.sort && onSort
            ? html`<button type="button" class="sort" onClick=${() => onSort(nextSort(column, sorted))}>${column.title}
                <span aria-hidden="true"> ${sorted === column.sort ? "▲" : sorted === `-${column.sort}` ? "▼" : "↕"}</span></button>`
            : column.title}</th>`)}</tr></thead>
      <tbody role="rowgroup">${rows.map((row, index) => html`<${Row} key=${rowKey ? rowKey(row) : index} row=${row} columns=${columns} detail=${detail?.(row) ?? null} />`)}</tbody>
    </table></div>`;
}

const Row = ({ row, columns, detail }) => html`<tr role="row">${columns.map((column) =>
    html`<td role=${column.isHeader ? "rowheader" : "cell"} data-label=${column.title} class=${column.isNumber ? "number" : null}><div>${column.cell(row)}</div></td>`)}</tr>
  ${detail !== null && html`<tr role="row" class="detail"><td role="cell" colspan=${columns.length}>${detail}</td></tr>`}`;

const ariaSort = (column, sorted) =>
  !column.sort ? null : sorted === column.sort ? "ascending" : sorted === `-${column.sort}` ? "descending" : "none";
const nextSort = (column, sorted) => (sorted === column.sort ? `-${column.sort}` : column.sort);

// Text field whose value goes into the address after a pause in typing.
export function FilterField({ label, name = "filter", placeholder = "" }) {
  const { params } = useRoute();
  const stored = params.get(name) ?? "";
  const [text, setText] = useState(stored);
  const timer = useRef(null);
  useEffect(() => {
    if (timer.current === null) setText(stored); // the back button, a link
  }, [stored]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const apply = (value) => {
    clearTimeout(timer.current);
    timer.current = null;
    setParams({ [name]: value || null, after: null });
  };
  return html`<label class="field"><span>${label}</span><input type="search" value=${text} placeholder=${placeholder} autocomplete="off" spellcheck=${false}
    onInput=${(event) => {
      const { value } = event.currentTarget;
      setText(value);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => apply(value), 300);
    }} onKeyDown=${(event) => event.key === "Enter" && apply(event.currentTarget.value)} /></label>`;
}

// Select whose value is a parameter of the address; the first option is the default.
export function ChoiceField({ label, name, options }) {
  const { params } = useRoute();
  return html`<label class="field"><span>${label}</span><select value=${params.get(name) ?? options[0][0]}
    onChange=${(event) => setParams({ [name]: event.currentTarget.value === options[0][0] ? null : event.currentTarget.value, after: null })}>
    ${options.map(([value, text]) => html`<option value=${value} selected=${(params.get(name) ?? options[0][0]) === value}>${text}</option>`)}</select></label>`;
}

// List with filter, pages and sort order in the address. `request(parameters)` returns the path; `field` names the rows.
export function PagedList({ request, field, caption, columns, rowKey, empty, fields = null, filterLabel = "Filter by name", defaultSort = null, every, toolbar = null, onData = null, reloadKey = 0 }) {
  const { params } = useRoute();
  const pages = params.getAll("after"); // positions of the pages up to this one
  const sort = params.get("sort") ?? defaultSort;
  const answer = useAnswer(request({ filter: params.get("filter"), sort, after: pages.at(-1) }), { every });
  useEffect(() => {
    if (reloadKey > 0) answer.reload();
  }, [reloadKey]);
  useEffect(() => {
    if (answer.data && onData) onData(answer.data);
  }, [answer.data]);
  const onSort = (value) => setParams({ sort: value === defaultSort ? null : value, after: null });
  return html`
    <div class="toolbar">${filterLabel && html`<${FilterField} label=${filterLabel} />`}${fields}<div class="spacer"></div>${toolbar}</div>
    <${Answer} answer=${answer}>${(data) => html`
      <${Table} caption=${caption} columns=${columns} rows=${data[field]} rowKey=${rowKey} sorted=${sort} onSort=${onSort} isBusy=${answer.isLoading}
        empty=${data.total > 0 ? "No row matches the filter." : empty} />
      <${Pager} data=${data} count=${data[field].length} pages=${pages} />`}<//>`;
}

function Pager({ data, count, pages }) {
  const shown = data.matching === data.total ? `${number(data.total)} in all` : `${number(data.matching)} of ${number(data.total)} match`;
  return html`<div class="pager"><span role="status" aria-live="polite">${number(count)} shown · ${shown}${pages.length > 0 ? ` · page ${pages.length + 1}` : ""}</span>
    ${(pages.length > 0 || data.next) && html`<span>
      <button type="button" disabled=${pages.length === 0} onClick=${() => setParams({ after: pages.slice(0, -1) }, { replace: false })}>← Previous page</button>
      <button type="button" disabled=${!data.next} onClick=${() => setParams({ after: [...pages, data.next] }, { replace: false })}>Next page →</button></span>`}</div>`;
}
