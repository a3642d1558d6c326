// A receiver of webhooks to copy and to change: Node.js alone, an inbox of one file per event.
//
//     WEBHOOK_SECRETS="whsec_..." node receiver.mjs
//
// A delivery is verified, stored under its event_id and answered; what your shop does with it, it does from the inbox,
// after reading the charge again through the API. Environment: HOST and PORT (127.0.0.1, 9999), FOLDER (inbox).

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { receiver } from "./verify.mjs";

const folder = process.env.FOLDER ?? "inbox";
const secrets = (process.env.WEBHOOK_SECRETS ?? "").split(/\s+/).filter(Boolean);
if (secrets.length === 0) {
  console.error("receiver.mjs: set WEBHOOK_SECRETS");
  process.exit(1);
}
await mkdir(folder, { recursive: true });

async function remember(eventId, body) {
  if (!/^[0-9a-f-]{36}$/.test(eventId)) throw new Error("no event_id");
  // "wx" fails when the file is there: an event is stored once, however often it comes.
  await writeFile(join(folder, `${eventId}.json`), body, { flag: "wx" }).catch((error) => {
    if (error.code !== "EEXIST") throw error;
  });
}

const port = Number(process.env.PORT ?? 9999);
const host = process.env.HOST ?? "127.0.0.1";
receiver(secrets, remember).listen(port, host, () => console.log(`waiting for webhooks at http://${host}:${port}/`));
