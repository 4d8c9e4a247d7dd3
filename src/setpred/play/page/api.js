// Asking the server: only the newest question matters, and at most one is under way.
const message = document.getElementById("message");

export function say(text) {
  message.textContent = text;
  message.hidden = !text;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The playground does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error ?? `The playground answered ${response.status}.`);
  return answer;
}

export const post = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
export const send = (path, file) => ask(path, { method: "POST", body: file });
export const get = (path) => ask(path);

// `question` makes a promise, `use` takes its answer. Calls while one is under way are merged into one after it.
export function newest(question, use) {
  let busy = false;
  let waiting = null;
  return async function run(...words) {
    if (busy) {
      waiting = words;
      return;
    }
    busy = true;
    try {
      const answer = await question(...words);
      say("");
      use(answer, ...words);
    } catch (error) {
      say(error.message);
    } finally {
      busy = false;
      if (waiting) {
        const next = waiting;
        waiting = null;
        run(...next);
      }
    }
  };
}
