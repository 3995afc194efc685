// Dialogs for changes: forms, and confirmations that ask for a name. Every change is sent once.

import { html, useEffect, useId, useRef, useState } from "./view.js";
import { Problem } from "./parts.js";

// Modal dialog; the browser keeps the focus inside, closes it with Escape and returns the focus to the opener.
export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  const id = useId();
  const isReplaced = useRef(false); // by another dialog or page: its own closing is no decision of the user
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => {
      isReplaced.current = true;
      if (dialog.open) dialog.close();
    };
  }, []);
  return html`<dialog ref=${element} aria-labelledby=${id} onClose=${() => isReplaced.current || onClose()}><h2 id=${id}>${title}</h2>${children}</dialog>`;
}

// Form in a dialog. `run` sends the change and raises errors of the broker, which are shown; `name` must be typed first.
export function ChangeDialog({ title, label, run, onDone, onClose, name = null, isDangerous = name !== null, isReady = true, children }) {
  const [typed, setTyped] = useState("");
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const isConfirmed = name === null || typed === name;
  const submit = async (event) => {
    event.preventDefault();
    if (!isConfirmed || isBusy || !isReady) return;
    setBusy(true);
    setError(null);
    try {
      const result = await run();
      onDone?.(result);
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${submit}>
    ${children}
    ${name !== null && html`<label class="field"><span>Type <strong class="name">${name}</strong> to confirm</span>
      <input value=${typed} autocomplete="off" spellcheck=${false} onInput=${(event) => setTyped(event.currentTarget.value)} /></label>`}
    <${Problem} error=${error} retries=${false} />
    <div class="dialog-actions"><button type="button" onClick=${onClose}>Cancel</button>
      <button type="submit" class=${isDangerous ? "danger" : "primary"} disabled=${!isConfirmed || isBusy || !isReady}>${isBusy ? "Sending…" : label}</button></div>
  </form><//>`;
}

// Button that opens a dialog; `children(close)` renders it.
export function DialogButton({ label, name = null, isDangerous = false, children }) {
  const [isOpen, setOpen] = useState(false);
  return html`<button type="button" class=${isDangerous ? "danger-outline" : null} aria-haspopup="dialog" onClick=${() => setOpen(true)}>
    ${label}${name !== null && html`<span class="hidden"> ${name}</span>`}</button>${isOpen && children(() => setOpen(false))}`;
}

// Labelled input; `set` receives the text.
export const Field = ({ label, hint = null, value, set, ...attributes }) => html`<label class="field"><span>${label}</span>
  <input value=${value} autocomplete="off" spellcheck=${false} onInput=${(event) => set(event.currentTarget.value)} ...${attributes} />
  ${hint && html`<small>${hint}</small>`}</label>`;

export const Area = ({ label, hint = null, value, set, rows = 4 }) => html`<label class="field wide"><span>${label}</span>
  <textarea rows=${rows} spellcheck=${false} onInput=${(event) => set(event.currentTarget.value)} value=${value}></textarea>
  ${hint && html`<small>${hint}</small>`}</label>`;

export const Choice = ({ label, value, set, options }) => html`<label class="field"><span>${label}</span>
  <select value=${value} onChange=${(event) => set(event.currentTarget.value)}>${options.map(([key, text]) =>
    html`<option value=${key} selected=${key === value}>${text}</option>`)}</select></label>`;

export const Check = ({ label, value, set }) => html`<label class="check"><input type="checkbox" checked=${value}
  onChange=${(event) => set(event.currentTarget.checked)} /> <span>${label}</span></label>`;
