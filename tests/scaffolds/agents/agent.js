// An agent of a dozen lines that knows nothing of us: OpenAI's API, one bash block a turn, until it submits.
const { execSync } = require("node:child_process");
const env = process.env, messages = [{ role: "user", content: require("node:fs").readFileSync(0, "utf8") }];
const run = (script) => { try { return execSync(script, { shell: "/bin/bash", encoding: "utf8", stdio: "pipe" }); } catch (error) { return error.stdout + error.stderr; } };
(async () => {
  for (;;) {
    const headers = { "content-type": "application/json", authorization: `Bearer ${env.OPENAI_API_KEY}` };
    const body = JSON.stringify({ model: env.OPENAI_MODEL, messages });
    const answer = await (await fetch(`${env.OPENAI_BASE_URL}/chat/completions`, { method: "POST", headers, body })).json();
    const message = answer.choices[0].message, script = /```bash\n([^]*?)\n```/.exec(message.content)?.[1];
    if (script === "submit") process.exit(0);
    messages.push(message, { role: "user", content: script ? run(script).trim() || "done" : "One bash block." });
  }
})();
