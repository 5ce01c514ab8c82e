/* A pair arrives: all that is sent for each, besides its texts. */

const panels = new WeakMap();

export default async function ({ data, parentElement, setTriggerValue }) {
  globalThis.guardEval ??= Promise.withResolvers();
  const Panel = await globalThis.guardEval.promise;
  if (!panels.has(parentElement)) panels.set(parentElement, new Panel(parentElement));
  const panel = panels.get(parentElement);
  // A list: see component.py.
  const visit = panel.show({ ...Panel.constants, ...data[0] }, setTriggerValue);
  return () => panel.leave(visit);
}
