// Sends the lines of a batch over HTTP/2, and waits for each answer before it sends the next line.
//
//     node batch.mjs PORT TOKEN
import assert from "node:assert";
import http2 from "node:http2";
import readline from "node:readline";

const [port, token] = process.argv.slice(2);
const session = http2.connect(`https://localhost:${port}`, { servername: "mcp.example.org", rejectUnauthorized: false });
const path = { ":method": "POST", ":path": "/batch", ":authority": "mcp.example.org" };
const stream = session.request({ ...path, authorization: `Bearer ${token}` }, { endStream: false });
stream.setTimeout(60_000, () => process.exit(1));
const answers = readline.createInterface({ input: stream })[Symbol.asyncIterator]();
for (const id of ["a", "b", "c"]) {
    stream.write(JSON.stringify({ id, code: `print("${id}")` }) + "\n");
    const answer = JSON.parse((await answers.next()).value);
    assert.deepStrictEqual([answer.id, answer.stdout], [id, id]);
}
stream.end();
assert.ok((await answers.next()).done);
session.close();
