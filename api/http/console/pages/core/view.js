// Preact's functions with `html` bound to them, for all other modules of the console.
//
// Every text of a broker or a client (names, keys, values, errors) reaches the page as a text node or an attribute
// value: no module sets innerHTML.

import { h, render, createContext } from "../vendor/preact.mjs";
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from "../vendor/hooks.mjs";
import htm from "../vendor/htm.mjs";

export const html = htm.bind(h);
export { render, useContext, useEffect, useId, useLayoutEffect, useRef, useState };

// Value: {session, health, isPaused}; session and health are answers of `useAnswer`.
export const ConsoleContext = createContext(null);

export const useSession = () => useContext(ConsoleContext).session.data;

// Return whether the broker accepts changes from this page, at all and by the user's permissions.
export function useWrites(permission = null) {
  const session = useSession();
  return Boolean(session?.writes_allowed && (permission === null || session.may?.[permission]));
}
