// The playground's page: one conversation, streamed from /v1/chat/completions with the page's own token.
// Everything a model says is put in as text, never as markup.
"use strict";

(() => {
    const part = (name) => document.getElementById(`playground-${name}`);
    const form = document.getElementById("playground");
    let token = tokenOf(document);
    const sessionId = crypto.getRandomValues(new Uint32Array(4)).join("-"); // keeps the conversation's pages warm
    let messages = [];
    let running = null; // the AbortController of the answer that is being written

    function tokenOf(page) {
        return JSON.parse(page.getElementById("playground-told").textContent).token;
    }

    // The page anew, for whoever is still logged in.
    async function renewToken() {
        const text = await (await fetch(window.location.href)).text();
        const page = new DOMParser().parseFromString(text, "text/html");
        if (!page.getElementById("playground-told")) throw new Error("You are logged out; log in and load this page again.");
        token = tokenOf(page);
    }

    function say(text) {
        part("said").textContent = text;
    }

    function bubble(role) {
        const box = document.createElement("div");
        const name = document.createElement("strong");
        const body = document.createElement("p");
        name.textContent = role === "user" ? "You" : part("model").value;
        body.style.whiteSpace = "pre-wrap";
        box.append(name, body);
        part("talk").append(box);
        return body;
    }

    function request() {
        const system = part("system").value.trim();
        const body = {
            model: part("model").value,
            messages: system ? [{ role: "system", content: system }, ...messages] : messages,
            max_tokens: Number(part("max-tokens").value) || 512,
            stream: true,
            stream_options: { include_usage: true },
            session_id: sessionId,
        };
        if (part("temperature").value !== "") body.temperature = Number(part("temperature").value);
        return body;
    }

    // The data of each event of a stream, up to [DONE].
    async function* events(response) {
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
            const { value, done } = await reader.read();
            if (done) return;
            const lines = (rest + value).split("\n");
            rest = lines.pop();
            for (const line of lines) {
                if (!line.startsWith("data: ")) continue;
                if (line === "data: [DONE]") return;
                yield JSON.parse(line.slice(6));
            }
        }
    }

    function ask() {
        return fetch("/v1/chat/completions", {
            method: "POST",
            headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
            body: JSON.stringify(request()),
            signal: running.signal,
        });
    }

    async function answer() {
        const started = performance.now();
        let response = await ask();
        if (response.status === 401) {
            await renewToken();
            response = await ask();
        }
        if (!response.ok) throw new Error((await response.json()).error.message);
        const body = bubble("assistant");
        const thought = document.createElement("em");
        const message = { role: "assistant", content: "" };
        messages.push(message);
        let first = null;
        for await (const event of events(response)) {
            if (event.error) throw new Error(event.error.message);
            const delta = event.choices[0]?.delta ?? {};
            if (delta.content || delta.reasoning_content) first ??= performance.now();
            if (delta.reasoning_content) {
                if (!thought.isConnected) body.before(thought);
                thought.textContent += delta.reasoning_content;
            }
            if (delta.content) {
                message.content += delta.content;
                body.textContent = message.content;
            }
            if (event.usage) {
                const num = event.usage.completion_tokens;
                if (num === 0) {
                    say("The model ended its answer at once.");
                    continue;
                }
                const seconds = (performance.now() - (first ?? started)) / 1000;
                const wait = ((first ?? performance.now()) - started) / 1000;
                say(`${num} tokens, ${(num / seconds).toFixed(1)} a second; the first after ${wait.toFixed(2)} s.`);
            }
        }
    }

    async function send() {
        const text = part("text").value;
        if (running || !text.trim()) return;
        running = new AbortController();
        part("stop").disabled = false;
        messages.push({ role: "user", content: text });
        bubble("user").textContent = text;
        part("text").value = "";
        say("…");
        try {
            await answer();
        } catch (error) {
            say(error.name === "AbortError" ? "Stopped." : error.message);
        } finally {
            running = null;
            part("stop").disabled = true;
        }
    }

    form.addEventListener("submit", (event) => {
        event.preventDefault();
        send();
    });
    part("text").addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        send();
    });
    part("stop").addEventListener("click", () => running?.abort());
    part("anew").addEventListener("click", () => {
        running?.abort();
        messages = [];
        part("talk").replaceChildren();
        say("");
    });
})();
